package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefund(t *testing.T) {
	_, got, err := refund(t.Context(), nil, refundArgs{ID: "B-2", Amount: 90})
	require.NoError(t, err)
	require.Equal(t, receipt{ID: "B-2", Refunded: 90}, got)
	for _, bad := range []refundArgs{{ID: "B-9", Amount: 1}, {ID: "B-2", Amount: 91}, {ID: "B-2"}} {
		_, _, err := refund(t.Context(), nil, bad)
		require.ErrorContains(t, err, "no booking", bad)
	}
}
