"""The report: a folder of static files that shows a store in a browser.

The page has no content of its own. Tables and figures are data in files beside it, which its
scripts draw as text; nothing in a record can therefore become markup or code.
"""
