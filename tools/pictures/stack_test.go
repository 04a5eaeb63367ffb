package pictures_test

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/client"
)

var devBinary = flag.String("dev", "", "path of a dev binary; empty: build one")

const (
	buildTime = 10 * time.Minute // linking the Temporal server is slow
	startTime = 2 * time.Minute
	stopTime  = time.Minute
)

// offloadBytes is the size in bytes from which payloads are offloaded to the blob store.
const offloadBytes = 4 << 10

// stack is a running dev.
type stack struct {
	api      string // URL of the gateway
	ui       string // URL of the Web UI
	temporal string // host:port of the Temporal server
	dir      string // HOME and TMPDIR of dev
	keys     string // temporal.encryption_keys
	client   *client.Client
}

// addressLine matches the lines in which dev prints addresses.
var addressLine = regexp.MustCompile(`(?m)^  (HTTP API|Web UI|Temporal) +(\S+)`)

// launch starts dev, with encryption and offloading of payloads.
func launch(t *testing.T) *stack {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	s := &stack{dir: t.TempDir(), keys: "2026-11:" + base64.StdEncoding.EncodeToString(key)}
	// Not CommandContext, because it is stopped by a signal. The ports in the flags are in use, so the browser must use those that dev takes instead.
	dev := exec.Command(program(t), "demo", "--keep", "--http-addr", taken(t), "--grpc-addr", taken(t),
		"--temporal-encryption-keys", s.keys, "--temporal-offload-bytes", strconv.Itoa(offloadBytes))
	dev.Dir = s.dir                                                                     // no turnstone.yaml
	dev.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir} // no keys of providers: the model is the offline one
	var stderr strings.Builder
	dev.Stderr = &stderr
	out, err := dev.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dev.Start())
	printed, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		printed <- readAddresses(bufio.NewScanner(out))
		ended <- dev.Wait()
	}()
	t.Cleanup(func() {
		_ = dev.Process.Signal(os.Interrupt) // fails if it has ended
		select {
		case <-ended:
		case <-time.After(stopTime):
			t.Error("dev does not stop")
			_ = dev.Process.Kill()
		}
	})
	select {
	case text := <-printed:
		for _, found := range addressLine.FindAllStringSubmatch(text, -1) {
			*map[string]*string{"HTTP API": &s.api, "Web UI": &s.ui, "Temporal": &s.temporal}[found[1]] = found[2]
		}
	case <-time.After(startTime):
	}
	require.True(t, s.api != "" && s.ui != "" && s.temporal != "", "dev did not start:\n%s", &stderr)
	s.client, err = client.New(client.Config{Server: s.api})
	require.NoError(t, err)
	return s
}

// readAddresses returns what dev prints until everything runs.
func readAddresses(lines *bufio.Scanner) string {
	var text strings.Builder
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Try:") {
			break
		}
	}
	return text.String()
}

// program returns the path of dev, which it builds unless there is the flag -dev.
func program(t *testing.T) string {
	t.Helper()
	if *devBinary != "" {
		return *devBinary
	}
	file := filepath.Join(t.TempDir(), "dev")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./dev/embedded")
	build.Dir, build.WaitDelay = "../..", buildTime
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return file
}

// taken listens on a free port until the test ends, and returns the address.
func taken(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}
