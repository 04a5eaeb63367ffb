// Package workflows sequences turns: [AgentTurn] carries out what internal/turn decides by calling activities, and [Conversation]
// runs a thread of turns. [Process] is for process workflows that use agents as steps, in this repository and in others';
// [IntelligentProcess] is the worked example. There is no I/O here, no clock but the workflow's, no map and no marshalling
// (docs/design/determinism.md).
package workflows
