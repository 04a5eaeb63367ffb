//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// measured is what a process holds.
type measured struct{ heap, goroutines, files float64 }

func (m measured) String() string {
	return fmt.Sprintf("%.1f MiB of heap, %.0f goroutines, %.0f files", m.heap/(1<<20), m.goroutines, m.files)
}

// holds asks a process what it holds.
func holds(t *testing.T, addr string) measured {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	value := func(name string) float64 {
		require.Contains(t, families, name)
		return families[name].GetMetric()[0].GetGauge().GetValue()
	}
	return measured{heap: value("go_memstats_heap_inuse_bytes"), goroutines: value("go_goroutines"), files: value("process_open_fds")}
}
