package postgres

// ReadDatasets is for the test of its plan.
const ReadDatasets = readDatasets
