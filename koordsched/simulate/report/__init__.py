"""Reports: one HTML page of what was simulated, which holds all that it needs and opens without a network.

- `page.py`        the page: tables and charts -> HTML; who has results of another kind puts together a `Page` of them
- `charts.py`      the shapes of charts (lines, areas, bars, heat maps, cells), as Vega-Lite specifications
- `run_page.py`    the page of one run, `comparison_page.py` of two, `sweep_page.py` of many

Charts are drawn by Vega, which is put into the page, as SVG. Vega-Lite specifications are compiled to Vega's here, so that a chart that
cannot be drawn is found when the page is made.
"""
