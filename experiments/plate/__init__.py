"""The main experiment: does it pay to draft for oneself at low precision?"""
