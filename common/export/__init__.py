"""Exported models as ONNX and TFLite files: conversion, quantization, comparison with the checkpoint."""
