package mcp

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServersChildren checks that the processes that a server has started end with it.
func TestServersChildren(t *testing.T) {
	kit := newKit(t, Config{Servers: []Server{stdioServer("local", "family")}, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	_, err := kit.List(t.Context(), scopeOf(map[string]any{"server": "local"}))
	require.NoError(t, err)
	var child int
	require.Eventually(t, func() bool {
		for _, e := range kit.logs.All() {
			said, _ := e.ContextMap()["stderr"].(string)
			if pid, ok := strings.CutPrefix(said, "child "); ok {
				child, err = strconv.Atoi(pid)
				return err == nil
			}
		}
		return false
	}, 10*time.Second, 5*time.Millisecond)
	require.True(t, isRunning(child))
	require.NoError(t, kit.Close())
	require.Eventually(t, func() bool { return !isRunning(child) }, 10*time.Second, 5*time.Millisecond)
}

// isRunning reports whether a process exists and is no zombie.
func isRunning(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && len(line) > 0
}
