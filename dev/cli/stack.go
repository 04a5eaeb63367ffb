package cli

import (
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
	anyPort   bool // take free ports where the preferred ones are in use
}

// instance is everything that was started.
type instance struct {
	settings *turnstone.Settings
	stack    *devstack.Stack
	model    *offline.Server
	service  *turnstone.Service
	held     []net.Listener // at the gateway's addresses
	scratch  string         // folder to remove at the end
	folder   string         // of the state: the kept one, or scratch
}

// start starts the stack, then the service on it.
func (d *dev) start(ctx context.Context, o stackOptions) (_ *instance, err error) {
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
	h := &instance{settings: settings}
	defer func() {
		if err != nil {
			err = h.end(ctx, err)
		}
	}()
	if o.ephemeral {
		o.data = ""
		if h.scratch, err = os.MkdirTemp("", "turnstone-dev-"); err != nil {
			return nil, err
		}
	} else if o.data, err = filepath.Abs(o.data); err != nil {
		return nil, err
	}
	logger, err := d.logger(settings)
	if err != nil {
		return nil, err
	}
	if err := h.holdDoors(ctx, o.anyPort); err != nil {
		return nil, err
	}
	cfg := d.config(settings, o, logger)
	cfg.StartTemporal = startTemporal
	if h.stack, err = devstack.Start(ctx, cfg); err != nil {
		return nil, d.explainPort(err)
	}
	if err := d.pointSettings(ctx, h, o); err != nil {
		return nil, err
	}
	if err := h.releaseDoors(); err != nil {
		return nil, err
	}
	d.printProgress("starting worker and gateway…")
	if h.service, err = turnstone.New(turnstone.Config{Settings: settings, Env: withoutPorts(d.env), Logger: logger}); err != nil {
		return nil, err
	}
	if err := h.service.Start(ctx); err != nil {
		return nil, err
	}
	return h, h.addExampleWorkflow(ctx)
}

func (d *dev) config(settings *turnstone.Settings, o stackOptions, logger *zap.Logger) devstack.Config {
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

// pointSettings sets the settings to the addresses of the started parts.
func (d *dev) pointSettings(ctx context.Context, h *instance, o stackOptions) error {
	set := h.settings
	set.Temporal.Address, set.Temporal.Namespace = h.stack.Temporal.Address(), h.stack.Temporal.Namespace()
	if set.Console.UIURL == "" {
		set.Console.UIURL = h.stack.Temporal.UIURL()
	}
	if ui, err := url.Parse(h.stack.Temporal.UIURL()); err == nil && len(set.HTTP.CodecOrigins) == 0 {
		set.HTTP.CodecOrigins = []string{"http://127.0.0.1:" + ui.Port(), "http://localhost:" + ui.Port()}
	}
	if h.stack.Postgres != nil {
		set.Database.URL = app.Secret(h.stack.Postgres.DSN())
	}
	if h.stack.Redis != nil {
		set.Jobs.RedisURL = app.Secret(h.stack.Redis.URL())
	}
	if h.stack.Mail != nil { // it delivers nothing
		set.Workflows.SMTP = app.SMTP{Addr: h.stack.Mail.Addr(), From: "turnstone@localhost", To: []string{"you@localhost"}, TLS: "none"}
	}
	folder := o.data
	if o.ephemeral {
		folder = h.scratch
	}
	h.folder = folder
	if set.Catalog.Folder == "" && !o.ephemeral {
		set.Catalog.Folder = filepath.Join(folder, "catalog")
		if err := os.MkdirAll(set.Catalog.Folder, 0o755); err != nil { //nolint:gosec // a person edits files there
			return fmt.Errorf("make the catalog's folder: %w", err)
		}
	}
	set.Storage.BlobURL = app.Secret((&url.URL{Scheme: "file", Path: filepath.Join(folder, "blobs")}).String())
	flights, err := url.Parse(h.stack.Flights.URL())
	if err != nil {
		return err
	}
	set.Egress.AllowPrivate = append(slices.Clone(set.Egress.AllowPrivate), flights.Host)
	if d.model != "" {
		set.LLM.Model = d.model
	}
	if set.LLM.Provider != app.ProviderOffline || set.LLM.BaseURL != "" {
		return nil
	}
	h.model, err = offline.Start(ctx, "127.0.0.1:0", offline.Config{FlightsURL: h.stack.Flights.URL() + "/flights"})
	if err != nil {
		return fmt.Errorf("start offline model: %w", err)
	}
	set.LLM.BaseURL, set.LLM.Model = h.model.BaseURL(), offline.ModelName
	return nil
}

// announce prints where everything is, and how to run a worker beside it.
func (h *instance) announce(ctx context.Context, w io.Writer, program string) error {
	client, example := "go run ./starter", "go run ./examples/customtool"
	if program != standalone {
		client, example = strings.TrimSuffix(program, " dev"), strings.TrimSuffix(program, " dev")+" worker"
	}
	model := h.settings.LLM.Provider + " · " + h.settings.LLM.Model
	redis := "as configured"
	if h.stack.Redis != nil {
		redis = h.stack.Redis.URL()
	}
	mail := h.settings.Workflows.SMTP.Addr
	if h.stack.Mail != nil {
		mail = h.stack.Mail.Addr() + " (delivers nothing; what is sent is shown here)"
	}
	catalog := h.settings.Catalog.Folder
	if catalog == "" {
		catalog = "no folder"
	}
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
`, h.settings.HTTP.LocalURL(), h.service.GRPCAddr(), h.settings.Temporal.Address, h.settings.Temporal.Namespace, h.settings.Temporal.TaskQueue,
		h.stack.Temporal.UIURL(), redis, h.settings.Jobs.Queue, mail, model, catalog, client, defaultPrompt, h.settings.HTTP.LocalURL())
	own, err := h.prepareOwnWorker(ctx)
	if err == nil && own != nil {
		own.print(w, example)
	}
	return err
}

// client calls the service, as an operator where authentication is configured.
func (h *instance) client() (*client.Client, error) {
	return client.New(client.Config{Server: h.settings.HTTP.LocalURL(), Key: h.settings.Auth.OperatorKey.Reveal()})
}

// wait waits for the end of ctx or of a part, and stops everything.
func (h *instance) wait(ctx context.Context) error {
	var failure error
	var database <-chan struct{}
	if h.stack.Postgres != nil {
		database = h.stack.Postgres.Exited()
	}
	select {
	case <-ctx.Done():
	case failure = <-h.service.Failed():
	case <-database:
		failure = errors.New("PostgreSQL ended by itself")
	}
	return h.end(ctx, failure)
}

// stop stops the started parts, the service before those that it uses.
func (h *instance) stop(ctx context.Context) error {
	faults := []error{h.releaseDoors()}
	if h.service != nil {
		faults = append(faults, h.service.Stop(ctx))
	}
	if h.model != nil {
		faults = append(faults, h.model.Close(ctx))
	}
	if h.stack != nil {
		faults = append(faults, h.stack.Close(ctx))
	}
	if h.scratch != "" {
		faults = append(faults, os.RemoveAll(h.scratch))
	}
	return errors.Join(faults...)
}

func (d *dev) printProgress(what string) { fmt.Fprintf(d.notes, "· %s\n", what) }

func (d *dev) logger(settings *turnstone.Settings) (*zap.Logger, error) {
	level := "error"
	if d.verbose {
		level = "info"
	}
	return app.Logger(app.Log{Level: level, Format: "console"}, app.Secrets(settings, d.env)...)
}

// defaultData returns a folder that PostgreSQL can use: root's server runs as another user, who cannot enter root's home.
func defaultData() string {
	here := ".turnstone"
	if abs, err := filepath.Abs(here); err == nil && pgdev.CheckDir(abs) == nil {
		return here
	}
	return "/var/lib/turnstone"
}
