package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
	"github.com/turnstone-run/turnstone/workflows"
)

type stackOptions struct {
	data      string
	ephemeral bool
	anyPort   bool // take free ports in place of those that are in use
}

// instance is a running stack with the service.
type instance struct {
	settings *turnstone.Settings
	stack    *devstack.Stack
	model    *offline.Server
	service  *turnstone.Service
	held     []net.Listener // keep the gateway's addresses until it starts
	scratch  string         // temporary folder of an ephemeral stack
	folder   string         // folder of the state; scratch if the stack is ephemeral
}

// start starts the stack, and then the service.
func (d *dev) start(ctx context.Context, o stackOptions) (*instance, error) {
	startTemporal, err := d.chooseTemporal(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.ports.load(d.flags, d.env); err != nil {
		return nil, err
	}
	settings, err := app.Load(app.Sources{Flags: d.flags, Env: withoutPorts(d.env), Dir: "."})
	if err != nil {
		return nil, err
	}
	if d.noWorker {
		settings.Worker.Enabled = false
	}
	inst := &instance{settings: settings}
	if err := d.startInstance(ctx, inst, startTemporal, o); err != nil {
		return nil, inst.stopAfter(ctx, err)
	}
	return inst, nil
}

// startInstance starts the servers of an instance. After an error the caller stops those that did start.
func (d *dev) startInstance(ctx context.Context, inst *instance, startTemporal devstack.StartTemporal, o stackOptions) (err error) {
	if o.ephemeral {
		o.data = ""
		if inst.scratch, err = os.MkdirTemp("", "turnstone-dev-"); err != nil {
			return err
		}
	} else if o.data, err = filepath.Abs(o.data); err != nil {
		return err
	}
	inst.folder = cmp.Or(o.data, inst.scratch)
	logger, err := d.logger(inst.settings)
	if err != nil {
		return err
	}
	if err := inst.holdGatewayAddresses(ctx, o.anyPort); err != nil {
		return err
	}
	cfg := d.stackConfig(inst.settings, o, logger)
	cfg.StartTemporal = startTemporal
	if inst.stack, err = devstack.Start(ctx, cfg); err != nil {
		return d.explainPort(err)
	}
	if err := d.configureService(ctx, inst, o.ephemeral); err != nil {
		return err
	}
	if err := inst.releaseAddresses(); err != nil {
		return err
	}
	d.printProgress("starting worker and gateway…")
	if inst.service, err = turnstone.New(turnstone.Config{Settings: inst.settings, Env: withoutPorts(d.env), Logger: logger}); err != nil {
		return err
	}
	if err := inst.service.Start(ctx); err != nil {
		return err
	}
	return inst.addExampleWorkflow(ctx)
}

func (d *dev) stackConfig(settings *turnstone.Settings, o stackOptions, logger *zap.Logger) devstack.Config {
	cfg := devstack.Config{
		DataDir: o.data, AnyPort: o.anyPort, Logger: logger, Progress: d.printProgress, Flights: &devstack.FlightsConfig{Port: d.ports.flights},
		Temporal: &devstack.TemporalConfig{
			FrontendPort: d.ports.temporal, UIPort: d.ports.ui, EnableUI: true, SearchAttributes: workflows.SearchAttributes(),
		},
	}
	if settings.Gateway.Enabled && (settings.Temporal.EncryptionKeys != "" || settings.Temporal.OffloadBytes > 0) {
		cfg.Temporal.CodecEndpoint = settings.HTTP.LocalURL() + "/codec"
	}
	if settings.Jobs.RedisURL == "" {
		cfg.Redis = &devstack.RedisConfig{Port: d.ports.redis}
	}
	if settings.Workflows.SMTP.Addr == "" {
		cfg.Mail = &devstack.MailConfig{Port: d.ports.mail, OnMail: func(m devstack.Mail) {
			d.printProgress(fmt.Sprintf("mail to %s: %q", strings.Join(m.To, ", "), m.Subject))
		}}
	}
	if settings.Database.URL == "" {
		cfg.Postgres = &pgdev.Config{}
	}
	return cfg
}

// configureService sets the settings of the service for the stack and, if they ask for the offline model, starts it.
func (d *dev) configureService(ctx context.Context, inst *instance, ephemeral bool) error {
	inst.setAddresses()
	settings := inst.settings
	if settings.Catalog.Folder == "" && !ephemeral {
		settings.Catalog.Folder = filepath.Join(inst.folder, "catalog")
		if err := os.MkdirAll(settings.Catalog.Folder, 0o755); err != nil { //nolint:gosec // users edit its files
			return fmt.Errorf("make the catalog's folder: %w", err)
		}
	}
	settings.Storage.BlobURL = app.Secret((&url.URL{Scheme: "file", Path: filepath.Join(inst.folder, "blobs")}).String())
	flights, err := url.Parse(inst.stack.Flights.URL())
	if err != nil {
		return err
	}
	settings.Egress.AllowPrivate = append(slices.Clone(settings.Egress.AllowPrivate), flights.Host)
	if d.model != "" {
		settings.LLM.Model = d.model
	}
	if settings.LLM.Provider != app.ProviderOffline || settings.LLM.BaseURL != "" {
		return nil
	}
	inst.model, err = offline.Start(ctx, "127.0.0.1:0", offline.Config{FlightsURL: inst.stack.Flights.URL() + "/flights"})
	if err != nil {
		return fmt.Errorf("start offline model: %w", err)
	}
	settings.LLM.BaseURL, settings.LLM.Model = inst.model.BaseURL(), offline.ModelName
	return nil
}

// setAddresses sets the settings to the addresses of the stack's servers.
func (inst *instance) setAddresses() {
	settings := inst.settings
	settings.Temporal.Address, settings.Temporal.Namespace = inst.stack.Temporal.Address(), devstack.Namespace
	if settings.Console.UIURL == "" {
		settings.Console.UIURL = inst.stack.Temporal.UIURL()
	}
	if ui, err := url.Parse(inst.stack.Temporal.UIURL()); err == nil && len(settings.HTTP.CodecOrigins) == 0 {
		settings.HTTP.CodecOrigins = []string{"http://127.0.0.1:" + ui.Port(), "http://localhost:" + ui.Port()}
	}
	if inst.stack.Postgres != nil {
		settings.Database.URL = app.Secret(inst.stack.Postgres.DSN())
	}
	if inst.stack.Redis != nil {
		settings.Jobs.RedisURL = app.Secret(inst.stack.Redis.URL())
	}
	if inst.stack.Mail != nil {
		settings.Workflows.SMTP = app.SMTP{Addr: inst.stack.Mail.Addr(), From: "turnstone@localhost", To: []string{"you@localhost"}, TLS: "none"}
	}
}

// printAddresses prints the addresses of all servers, and how to run a worker beside them.
func (inst *instance) printAddresses(ctx context.Context, w io.Writer, program string) error {
	client, example := "go run ./starter", "go run ./examples/customtool"
	if program != standalone {
		client, example = strings.TrimSuffix(program, " dev"), strings.TrimSuffix(program, " dev")+" worker"
	}
	model := inst.settings.LLM.Provider + " · " + inst.settings.LLM.Model
	redis := "as configured"
	if inst.stack.Redis != nil {
		redis = inst.stack.Redis.URL()
	}
	mail := inst.settings.Workflows.SMTP.Addr
	if inst.stack.Mail != nil {
		mail = inst.stack.Mail.Addr() + " (delivers nothing; what is sent is shown here)"
	}
	catalog := cmp.Or(inst.settings.Catalog.Folder, "no folder")
	fmt.Fprintf(w, `
  HTTP API   %s (the console: open it in a browser)
  gRPC       %s
  Temporal   %s (namespace %s, task queue %s)
  Web UI     %s
  Redis      %s (jobs: %s)
  mail       %s
  model      %s
  catalog    %s (documents are applied as they are saved)

Try:
  %s chat "%s" --server %s
`, inst.settings.HTTP.LocalURL(), inst.service.GRPCAddr(), inst.settings.Temporal.Address, inst.settings.Temporal.Namespace, inst.settings.Temporal.TaskQueue,
		inst.stack.Temporal.UIURL(), redis, inst.settings.Jobs.Queue, mail, model, catalog, client, defaultPrompt, inst.settings.HTTP.LocalURL())
	worker, err := inst.prepareUserWorker(ctx)
	if err == nil && worker != nil {
		worker.print(w, example)
	}
	return err
}

// client returns a client of the service. If authentication is configured, it has the operator's key.
func (inst *instance) client() (*client.Client, error) {
	return client.New(client.Config{Server: inst.settings.HTTP.LocalURL(), Key: inst.settings.Auth.OperatorKey.Reveal()})
}

// wait waits until ctx ends, or until the service or the database fails, and then stops everything.
func (inst *instance) wait(ctx context.Context) error {
	var failure error
	var database <-chan struct{}
	if inst.stack.Postgres != nil {
		database = inst.stack.Postgres.Exited()
	}
	select {
	case <-ctx.Done():
	case failure = <-inst.service.Failed():
	case <-database:
		failure = errors.New("PostgreSQL ended by itself")
	}
	return inst.stopAfter(ctx, failure)
}

// stop stops the service, and then the servers that it uses.
func (inst *instance) stop(ctx context.Context) error {
	faults := []error{inst.releaseAddresses()}
	if inst.service != nil {
		faults = append(faults, inst.service.Stop(ctx))
	}
	if inst.model != nil {
		faults = append(faults, inst.model.Close(ctx))
	}
	if inst.stack != nil {
		faults = append(faults, inst.stack.Close(ctx))
	}
	if inst.scratch != "" {
		faults = append(faults, os.RemoveAll(inst.scratch))
	}
	return errors.Join(faults...)
}

func (d *dev) printProgress(text string) { fmt.Fprintf(d.notes, "· %s\n", text) }

func (d *dev) logger(settings *turnstone.Settings) (*zap.Logger, error) {
	level := "error"
	if d.verbose {
		level = "info"
	}
	return app.Logger(app.Log{Level: level, Format: "console"}, app.Secrets(settings, d.env)...)
}

// defaultData returns a folder that PostgreSQL can use. If this process is root, PostgreSQL runs as another user, who has no access to root's home.
func defaultData() string {
	here := ".turnstone"
	if abs, err := filepath.Abs(here); err == nil && pgdev.CheckDir(abs) == nil {
		return here
	}
	return "/var/lib/turnstone"
}
