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
	// minServer is the oldest Temporal server that runs everything here; temporal CLI 1.5 has it.
	minServer = "v1.29.0"

	versionTimeout = 10 * time.Second
	stopTimeout    = 10 * time.Second
)

// ErrNoTemporalCLI means that no usable temporal command is installed.
var ErrNoTemporalCLI = errors.New("no temporal command that can be used")

// TemporalCLI is an installed temporal command, whose development server takes the place of the embedded one.
type TemporalCLI struct {
	path   string
	server string // version of its server, such as v1.29.1
}

var serverVersion = regexp.MustCompile(`\(Server (\d+\.\d+\.\d+)`)

// FindTemporalCLI returns the temporal command of PATH. Errors: ErrNoTemporalCLI, whose text says why.
func FindTemporalCLI(ctx context.Context) (TemporalCLI, error) {
	path, err := exec.LookPath("temporal")
	if err != nil {
		return TemporalCLI{}, fmt.Errorf("%w: %w", ErrNoTemporalCLI, err)
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // the command of PATH, on purpose
	if err != nil {
		return TemporalCLI{}, fmt.Errorf("%w: %s --version: %w", ErrNoTemporalCLI, path, err)
	}
	found := serverVersion.FindSubmatch(out)
	if found == nil {
		return TemporalCLI{}, fmt.Errorf("%w: %s --version does not name its server: %.100q", ErrNoTemporalCLI, path, out)
	}
	cli := TemporalCLI{path: path, server: "v" + string(found[1])}
	if semver.Compare(cli.server, minServer) < 0 {
		return TemporalCLI{}, fmt.Errorf("%w: the server of %s is %s, want %s or later", ErrNoTemporalCLI, path, cli.server, minServer)
	}
	return cli, nil
}

// Start starts the command's development server; see [StartTemporal].
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
	// A fixed environment: variables and profiles of a person's own Temporal clusters are not this server's.
	env := []string{"PATH=/usr/bin:/bin", "HOME=/"}
	s.process, err = child.Start(ctx, child.Config{
		Program: c.path, Args: c.arguments(cfg, ports), Dir: "/", Env: env,
		DeathSignal: syscall.SIGKILL, // the next start must not find one that is still stopping; SQLite outlives it
	})
	if err == nil {
		err = s.awaitReady(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("%s server start-dev: %w", c.path, errors.Join(err, s.Stop()))
	}
	return s, nil
}

// arguments returns the command line of the server. ports are those of the frontend, of the UI, and of the frontend's HTTP.
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
		args = append(args, "--db-filename", filepath.Join(cfg.DataDir, "temporal-cli-"+c.server[1:]+".db"))
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
	lock           *pgdev.Lock // nil if nothing is kept
}

// awaitReady waits for the frontend, unless the process ends first.
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

func (s *cliServer) Address() string   { return s.address }
func (s *cliServer) Namespace() string { return Namespace }
func (s *cliServer) UIURL() string     { return s.uiURL }

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
