package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJitter(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := jitter(time.Second)
		low, high = min(low, d), max(high, d)
	}
	require.Less(t, low, 850*time.Millisecond)
	require.GreaterOrEqual(t, low, 800*time.Millisecond)
	require.Greater(t, high, 1150*time.Millisecond)
	require.LessOrEqual(t, high, 1200*time.Millisecond)
	require.Zero(t, jitter(0))
}
