"""What TensorFlow's module `training.tracking.tracking` had, which is in several modules now."""

from tensorflow.python.trackable.asset import Asset
from tensorflow.python.trackable.autotrackable import AutoTrackable
from tensorflow.python.trackable.resource import CapturableResource, ResourceTracker, TrackableResource, resource_tracker_scope

__all__ = ['Asset', 'AutoTrackable', 'CapturableResource', 'ResourceTracker', 'TrackableResource', 'resource_tracker_scope']
