package llmtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The suite judges with verdict; a suite that cannot fail would prove nothing.
func TestVerdict(t *testing.T) {
	require.Empty(t, verdict("", "", false))
	require.Equal(t, "boom", verdict("boom", "", false))
	require.Empty(t, verdict("a boom b", "boom", true))
	require.Contains(t, verdict("", "boom", true), "is closed")
	require.Contains(t, verdict("crash", "boom", true), "otherwise than recorded")
	require.Contains(t, verdict("crash", "", true), "otherwise than recorded")
}

func TestAttemptRecordsFailuresAndPanics(t *testing.T) {
	require.Empty(t, attempt(Harness{}, testCase{"fine", func(*C) {}}).String())
	require.Contains(t, attempt(Harness{}, testCase{"fails", func(c *C) { require.True(c, false) }}).String(), "Should be true")
	require.Contains(t, attempt(Harness{}, testCase{"panics", func(*C) { panic("lost the thread") }}).String(), "panic: lost the thread")
}
