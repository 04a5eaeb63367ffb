-- The list of the turns that rerun one (docs/guides/reruns.md). Few turns are reruns.
CREATE INDEX turns_reruns ON turns (tenant, rerun_of) WHERE rerun_of <> '';
