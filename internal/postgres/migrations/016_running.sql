-- How many turns are at work is asked whenever metrics are read.

CREATE INDEX turns_running ON turns (tenant) WHERE state = 'running';
