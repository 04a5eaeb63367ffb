package examples_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPrograms checks that each program prints its usage, and that Ctrl-C ends it without a stack trace while it waits for a server.
func TestPrograms(t *testing.T) {
	bin := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts connections and sends nothing
	require.NoError(t, err)
	defer silent.Close()
	begun := make(chan struct{}, 100)
	go func() {
		for {
			if _, err := silent.Accept(); err != nil { // connections stay open
				return
			}
			select {
			case begun <- struct{}{}:
			default:
			}
		}
	}()
	env := append(os.Environ(), "TEMPORAL_ADDRESS="+silent.Addr().String(), "DATABASE_URL=postgres://x@"+silent.Addr().String()+"/x?sslmode=disable")

	programs, err := filepath.Glob(filepath.Join(bin, "*"))
	require.NoError(t, err)
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.Len(t, programs, len(mains))
	for _, program := range programs {
		t.Run(filepath.Base(program), func(t *testing.T) {
			for len(begun) > 0 { // signals of the program before
				<-begun
			}
			out, err := exec.CommandContext(t.Context(), program, "--help").CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "Usage")

			printed := &output{begun: begun}
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), env, printed, printed
			input, err := cmd.StdinPipe() // open, as at a terminal
			require.NoError(t, err)
			defer input.Close()
			require.NoError(t, cmd.Start())
			_, err = input.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")) // mcptool answers
			require.NoError(t, err)
			<-begun
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
			case <-time.After(20 * time.Second):
				require.NoError(t, cmd.Process.Kill())
				require.Fail(t, "Ctrl-C does not end it")
			}
			require.True(t, cmd.ProcessState.Exited(), "it was killed by the signal: %s", cmd.ProcessState)
			require.NotContains(t, printed.text.String(), "goroutine ")
		})
	}
}

// output records what a program prints, and signals begun when it prints.
type output struct {
	text  bytes.Buffer
	begun chan<- struct{}
}

func (o *output) Write(p []byte) (int, error) {
	select {
	case o.begun <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}
