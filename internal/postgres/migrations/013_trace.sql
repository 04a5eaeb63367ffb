-- What a turn belongs to in traces (ADR 0008).

ALTER TABLE turns ADD COLUMN trace text NOT NULL DEFAULT ''; -- W3C traceparent of what asked for it
