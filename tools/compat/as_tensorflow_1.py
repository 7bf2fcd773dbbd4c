"""Runs a program with the behavior of TensorFlow 1: `as_tensorflow_1.py SCRIPT ARGS...`."""

import os
import runpy
import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name='__main__')
