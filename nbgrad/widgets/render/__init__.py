"""A graph as SVG, PNG, text, HTML, and in bytes for the page. It imports ``layout`` and below."""
