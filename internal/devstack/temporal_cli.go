package devstack

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/mod/semver"

	"github.com/turnstone-run/turnstone/internal/devstack/child"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

const (
	// minServer is the oldest Temporal server that can run Turnstone. It is that of the temporal command 1.5.
	minServer = "v1.29.0"

	versionTimeout = 10 * time.Second
	stopTimeout    = 10 * time.Second
)

// ErrNoTemporalCLI means that there is no temporal command in PATH, or one that cannot be used.
var ErrNoTemporalCLI = errors.New("no temporal command that can be used")

// TemporalCLI is an installed temporal command, which has a development server.
type TemporalCLI struct {
	path          string
	serverVersion string // such as v1.29.1
}

var serverVersionPattern = regexp.MustCompile(`\(Server (\d+\.\d+\.\d+)`)

// FindTemporalCLI returns the temporal command in PATH. Errors are [ErrNoTemporalCLI].
func FindTemporalCLI(ctx context.Context) (TemporalCLI, error) {
	path, err := exec.LookPath("temporal")
	if err != nil {
		return TemporalCLI{}, fmt.Errorf("%w: %w", ErrNoTemporalCLI, err)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // runs the command in PATH on purpose
	if err != nil {
		return TemporalCLI{}, fmt.Errorf("%w: %s --version: %w", ErrNoTemporalCLI, path, err)
	}
	found := serverVersionPattern.FindSubmatch(out)
	if found == nil {
		return TemporalCLI{}, fmt.Errorf("%w: %s --version does not name its server: %.100q", ErrNoTemporalCLI, path, out)
	}
	cli := TemporalCLI{path: path, serverVersion: "v" + string(found[1])}
	if semver.Compare(cli.serverVersion, minServer) < 0 {
		return TemporalCLI{}, fmt.Errorf("%w: the server of %s is %s, want %s or later", ErrNoTemporalCLI, path, cli.serverVersion, minServer)
	}
	return cli, nil
}

// Start starts the development server of the command. It is a [StartTemporal].
func (c TemporalCLI) Start(ctx context.Context, cfg TemporalConfig) (Temporal, error) {
	ui := Port{}
	if cfg.EnableUI {
		ui = Port{"the Temporal Web UI", cfg.UIPort}
	}
	ports, err := ChoosePorts(cfg.AnyPort, Port{"Temporal", cfg.FrontendPort}, ui, Port{Purpose: "a part of Temporal"})
	if err != nil {
		return nil, err
	}
	s := &cliServer{address: HostPort(ports[0])}
	if cfg.EnableUI {
		s.uiURL = "http://" + HostPort(ports[1])
	}
	if cfg.DataDir != "" {
		if s.lock, err = LockFolder(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	// A fixed environment, so that variables and profiles for other Temporal clusters do not configure this server.
	env := []string{"PATH=/usr/bin:/bin", "HOME=/"}
	s.process, err = child.Start(ctx, child.Config{
		Program: c.path, Args: c.arguments(cfg, ports), Dir: "/", Env: env,
		DeathSignal: syscall.SIGKILL, // or the next start could find a server that is still stopping; SQLite loses nothing
	})
	if err == nil {
		err = s.awaitReady(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s server start-dev: %w", c.path, errors.Join(err, s.Stop()))
	}
	return s, nil
}

// arguments returns the arguments of the command. ports are those of the frontend, the Web UI and the frontend's HTTP API.
func (c TemporalCLI) arguments(cfg TemporalConfig, ports []int) []string {
	args := []string{
		"server", "start-dev", "--ip", Loopback, "--namespace", Namespace, "--log-level", "error",
		"--port", fmt.Sprint(ports[0]), "--http-port", fmt.Sprint(ports[2]),
	}
	if cfg.EnableUI {
		args = append(args, "--ui-port", fmt.Sprint(ports[1]))
	} else {
		args = append(args, "--headless")
	}
	if cfg.CodecEndpoint != "" {
		args = append(args, "--ui-codec-endpoint", cfg.CodecEndpoint)
	}
	if cfg.DataDir != "" {
		args = append(args, "--db-filename", filepath.Join(cfg.DataDir, "temporal-cli-"+c.serverVersion[1:]+".db"))
	}
	for _, s := range DynamicSettings() {
		args = append(args, "--dynamic-config-value", fmt.Sprintf("%s=%s", s.Key, s.JSON()))
	}
	return args
}

// cliServer is a running development server.
type cliServer struct {
	address, uiURL string
	process        *child.Process
	lock           *pgdev.Lock // nil without DataDir
}

// awaitReady waits for the frontend. It returns an error at once if the process ends.
func (s *cliServer) awaitReady(ctx context.Context, cfg TemporalConfig) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.process.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	err := AwaitFrontend(ctx, s.address, cfg.SearchAttributes)
	if err != nil && !s.process.Alive() {
		return fmt.Errorf("ended while starting (%s): %s", s.process.Exit(), s.process.Output())
	}
	return err
}

func (s *cliServer) Address() string { return s.address }
func (s *cliServer) UIURL() string   { return s.uiURL }

func (s *cliServer) Stop() error {
	var err error
	if s.process != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		err = s.process.Shutdown(ctx, syscall.SIGTERM)
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Release())
		s.lock = nil
	}
	return err
}
