"""Documents that are translated in their own format: PO, MO, TMX, XLIFF, HTML, subtitles."""
