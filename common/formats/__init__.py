"""Users' files: class folders, images, downloads."""
