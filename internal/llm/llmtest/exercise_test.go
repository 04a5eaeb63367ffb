package llmtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	require.Empty(t, judge("", "", false))
	require.Equal(t, "boom", judge("boom", "", false))
	require.Empty(t, judge("a boom b", "boom", true))
	require.Contains(t, judge("", "boom", true), "is closed")
	require.Contains(t, judge("crash", "boom", true), "another failure")
	require.Contains(t, judge("crash", "", true), "another failure")
}

func TestRunCaseReturnsFailuresAndPanics(t *testing.T) {
	require.Empty(t, runCase(Harness{}, func(*caseRun) {}))
	require.Contains(t, runCase(Harness{}, func(c *caseRun) { require.True(c, false) }), "Should be true")
	require.Contains(t, runCase(Harness{}, func(*caseRun) { panic("lost the thread") }), "panic: lost the thread")
}
