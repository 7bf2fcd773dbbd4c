"""The contents of TensorFlow's former module `training.tracking.tracking`, now in several modules."""

from tensorflow.python.trackable.asset import Asset
from tensorflow.python.trackable.autotrackable import AutoTrackable
from tensorflow.python.trackable.resource import CapturableResource, ResourceTracker, TrackableResource, resource_tracker_scope

__all__ = ['Asset', 'AutoTrackable', 'CapturableResource', 'ResourceTracker', 'TrackableResource', 'resource_tracker_scope']
