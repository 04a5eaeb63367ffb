package postgres

// Statements for the tests of their plans.
const (
	ReadDatasets  = readDatasets
	ReadWorkflow  = readWorkflow
	ListRuns      = listRuns
	ReadTurnTools = readTurnTools
	ReadUses      = readUses
	EvictUses     = evictUses
	EvictSamples  = evictSamples
)
