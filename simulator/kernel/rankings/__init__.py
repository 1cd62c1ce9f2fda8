"""Schedulers that are an order of jobs, carried out in passes; who gives way to whom, and when that pays."""
