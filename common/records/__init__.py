"""TFRecord files: conversion, manifest, verification, reading."""
