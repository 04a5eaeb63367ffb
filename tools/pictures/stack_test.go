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

var built = flag.String("dev", "", "a dev that was built before, instead of building one")

const (
	buildTime = 10 * time.Minute // linking the Temporal server on a machine that has other things to do
	startTime = 2 * time.Minute
	stopTime  = time.Minute
)

// offloadBytes is the size from which payloads go to the blob store.
const offloadBytes = 4 << 10

// stack is a running dev.
type stack struct {
	api      string // http://host:port of the gateway
	ui       string // of the Web UI
	temporal string // host:port of the Temporal server
	dir      string // HOME and TMPDIR of dev
	keys     string // temporal.encryption_keys
	client   *client.Client
}

// announced are the lines in which dev says where things are.
var announced = regexp.MustCompile(`(?m)^  (HTTP API|Web UI|Temporal) +(\S+)`)

// launch starts dev with a key of its own, and everything kept elsewhere that is large.
func launch(t *testing.T) *stack {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	s := &stack{dir: t.TempDir(), keys: "2026-11:" + base64.StdEncoding.EncodeToString(key)}
	// Not CommandContext: it is stopped below, by a signal. It takes other ports than those that are in use, and has the browser ask there.
	dev := exec.Command(program(t), "demo", "--keep", "--http-addr", taken(t), "--grpc-addr", taken(t),
		"--temporal-encryption-keys", s.keys, "--temporal-offload-bytes", strconv.Itoa(offloadBytes))
	dev.Dir = s.dir                                                                     // no turnstone.yaml
	dev.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir} // no keys of providers: the model is the offline one
	var complaints strings.Builder
	dev.Stderr = &complaints
	out, err := dev.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dev.Start())
	said, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		said <- announcement(bufio.NewScanner(out))
		ended <- dev.Wait()
	}()
	t.Cleanup(func() {
		_ = dev.Process.Signal(os.Interrupt) // it may have ended
		select {
		case <-ended:
		case <-time.After(stopTime):
			t.Error("dev does not stop")
			_ = dev.Process.Kill()
		}
	})
	select {
	case text := <-said:
		for _, found := range announced.FindAllStringSubmatch(text, -1) {
			*map[string]*string{"HTTP API": &s.api, "Web UI": &s.ui, "Temporal": &s.temporal}[found[1]] = found[2]
		}
	case <-time.After(startTime):
	}
	require.True(t, s.api != "" && s.ui != "" && s.temporal != "", "dev did not start:\n%s", &complaints)
	s.client, err = client.New(client.Config{Server: s.api})
	require.NoError(t, err)
	return s
}

// announcement reads what dev says until everything runs, and goes on reading behind the caller's back.
func announcement(lines *bufio.Scanner) string {
	var text strings.Builder
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "Try:") {
			break
		}
	}
	return text.String()
}

// program is dev, built where nothing was given.
func program(t *testing.T) string {
	t.Helper()
	if *built != "" {
		return *built
	}
	file := filepath.Join(t.TempDir(), "dev")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./dev/embedded")
	build.Dir, build.WaitDelay = "../..", buildTime
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	return file
}

// taken is an address that somebody listens at.
func taken(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}
