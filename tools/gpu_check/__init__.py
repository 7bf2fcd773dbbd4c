"""Checks on GPUs, by people who have some: python -m tools.gpu_check"""
