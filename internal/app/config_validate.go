package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/secret"
)

// maxModels bounds the list of model profiles.
const maxModels = 100

// validate checks every setting by the rules of its tags, and then the settings that depend on each other. It adds faults and changes
// nothing.
func (l *loader) validate() {
	eachValue(reflect.ValueOf(l.cfg).Elem(), "", l.checkField)
	l.checkDoors()
	l.checkTemporal()
	l.checkStores()
	l.checkTurns()
	l.checkModels()
	l.checkCatalog()
	l.checkAccess()
	l.checkLimits()
	l.checkTelegram()
	l.checkTools()
	l.checkWorkflows()
	l.checkTelemetry()
	l.checkRetention()
	l.checkEgress()
	each("log.pii", l.cfg.Log.PII, func(path, kind string) {
		l.checkOneOf(path, kind, "email", "credit_card", "ip", "mac_address", "url")
	})
}

// each calls check with the path of each entry of a list.
func each(path string, list []string, check func(path, entry string)) {
	for i, entry := range list {
		check(fmt.Sprintf("%s[%d]", path, i), entry)
	}
}

func (l *loader) checkDoors() {
	cfg := l.cfg
	if cfg.Gateway.Enabled && cfg.HTTP.Addr == cfg.GRPC.Addr && !strings.HasSuffix(cfg.HTTP.Addr, ":0") {
		l.addFault("grpc.addr", "is %s, which is http.addr as well", cfg.GRPC.Addr)
	}
	if !cfg.Gateway.Enabled && !cfg.Worker.Enabled {
		l.addFault("worker.enabled", "is false and gateway.enabled is false: this process would do nothing; enable one")
	}
	each("http.allowed_hosts", cfg.HTTP.AllowedHosts, func(path, host string) {
		if host == "" || strings.ContainsAny(host, "/@ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
			l.addFault(path, "want a host name without scheme and port, or *")
		}
	})
	each("http.allowed_origins", cfg.HTTP.AllowedOrigins, func(path, origin string) {
		if origin != "*" && !isOrigin(origin) {
			l.addFault(path, "want scheme://host or scheme://host:port, or *")
		}
	})
	each("http.codec_origins", cfg.HTTP.CodecOrigins, func(path, origin string) {
		if !isOrigin(origin) {
			l.addFault(path, "want scheme://host or scheme://host:port")
		}
	})
	each("gateway.direct_channels", cfg.Gateway.DirectChannels, func(path, channel string) {
		if !agent.ValidName(channel) {
			l.addFault(path, "want the name of a channel: http, grpc, ws, openai, chat, telegram, …")
		}
	})
}

func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.Scheme+"://"+u.Host == text
}

func (l *loader) checkTemporal() {
	t := l.cfg.Temporal
	if t.Address != "" {
		// gRPC resolver names such as dns:///host:port are addresses as well.
		l.checkAddress("temporal.address", t.Address[strings.LastIndex(t.Address, "/")+1:], 1)
	}
	if keys := t.EncryptionKeys.Reveal(); keys != "" {
		if _, err := codec.ParseKeyList(keys); err != nil {
			l.addFault("temporal.encryption_keys", "%s", err)
		}
	}
	if v := t.WorkerVersioning; (v.Deployment == "") != (v.BuildID == "") {
		l.addFault("temporal.worker_versioning", "want deployment and build_id together, or neither")
	}
}

func (l *loader) checkStores() {
	cfg := l.cfg
	if dsn := cfg.Database.URL.Reveal(); dsn != "" {
		u, err := url.Parse(dsn)
		isURL := err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
		isDSN := !strings.Contains(dsn, "://") && strings.Contains(dsn, "=")
		if !isURL && !isDSN {
			l.addFault("database.url", "want postgres://user:password@host:port/database")
		}
	}
	if bucket := cfg.Storage.BlobURL.Reveal(); bucket != "" {
		if u, err := url.Parse(bucket); err != nil || u.Scheme == "" {
			l.addFault("storage.blob_url", "want a bucket URL such as file:///path or s3://bucket")
		}
	}
	if cfg.Events.Log == LogMemory && (!cfg.Gateway.Enabled || !cfg.Worker.Enabled) {
		l.addFault("events.log", "memory serves one process only, which has to be gateway and worker: enable both or use postgres")
	}
	if relay := cfg.Events.Relay.Address; relay != "" {
		l.checkAddress("events.relay.address", relay, 0)
	}
	if name := cfg.Events.Relay.Advertise; strings.Contains(name, ":") && net.ParseIP(name) == nil {
		l.checkAddress("events.relay.advertise", name, 1)
	}
}

func (l *loader) checkTurns() {
	t := l.cfg.Turn
	if t.WallTime%time.Second != 0 {
		l.addFault("turn.wall_time", "want whole seconds")
	}
	if body := l.cfg.HTTP.MaxBodyBytes; body > 0 && t.MaxMessageBytes > body {
		l.addFault("turn.max_message_bytes", "is above http.max_body_bytes (%s): such a message could not arrive", body)
	}
}

func modelPath(i int) string { return fmt.Sprintf("models[%d]", i) }

// providerName is also the pattern of ModelProfile.provider (docs/schemas/model_profile.json).
var providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,63}$`)

var profileName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (l *loader) checkModels() {
	l.checkModel("llm", &l.cfg.LLM)
	l.checkCount("models", len(l.cfg.Models), maxModels)
	seen := map[string]bool{"default": true}
	for i := range l.cfg.Models {
		l.checkProfileName(modelPath(i)+".name", l.cfg.Models[i].Name, seen)
		l.checkModel(modelPath(i), &l.cfg.Models[i].LLM)
	}
}

func (l *loader) checkProfileName(path, name string, seen map[string]bool) {
	if !profileName.MatchString(name) {
		l.addFault(path, "want 1 to 64 letters, digits, dots, underscores or dashes")
		return
	}
	l.checkUnique(path, name, seen, "%q is taken")
}

func (l *loader) checkModel(path string, m *LLM) {
	if !providerName.MatchString(m.Provider) { // CheckProviders checks that the provider exists
		l.addFault(path+".provider", "want a name such as openai: lower case letters, digits and dashes, got %q", m.Provider)
	} else {
		l.checkText(path+".model", "required", m.Model)
		// A self-hosted service (base_url) may need no key; the public ones do.
		if m.APIKey == "" && m.BaseURL == "" && (m.Provider == ProviderOpenAI || m.Provider == ProviderAnthropic) {
			l.addFault(path+".api_key", "is required for %s: set it, %s or %s", m.Provider, openAIKey, anthropicKey)
		}
	}
	if m.BaseURL != "" {
		u, err := url.Parse(m.BaseURL)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			l.addFault(path+".base_url", "want an http or https URL")
		case u.User != nil:
			l.addFault(path+".base_url", "must not hold credentials: put them into api_key")
		}
	}
}

// checkCatalog lets internal/secret check the entries, because it also reads them.
func (l *loader) checkCatalog() {
	c := l.cfg.Catalog
	each("catalog.secret_env", c.SecretEnv, func(path, entry string) {
		_, err := secret.New(secret.Config{AllowEnv: []string{entry}})
		l.addPackageFault(path, err)
	})
	each("catalog.secret_folders", c.SecretFolders, func(path, entry string) {
		_, err := secret.New(secret.Config{Folders: []string{entry}})
		l.addPackageFault(path, err)
	})
}

func (l *loader) checkEgress() {
	each("egress.allow_hosts", l.cfg.Egress.AllowHosts, func(path, rule string) {
		_, err := egress.New(egress.Config{AllowHosts: []string{rule}})
		l.addPackageFault(path, err)
	})
	each("egress.allow_private", l.cfg.Egress.AllowPrivate, func(path, rule string) {
		_, err := egress.New(egress.Config{AllowPrivate: []string{rule}})
		l.addPackageFault(path, err)
	})
}

// addPackageFault adds the error of the package that reads the setting, without the field that the error names. It does nothing for nil.
func (l *loader) addPackageFault(path string, err error) {
	if err == nil {
		return
	}
	message := err.Error()
	if e, ok := errors.AsType[*agent.Error](err); ok {
		message = e.Err.Error()
	}
	l.addFault(path, "%s", message)
}
