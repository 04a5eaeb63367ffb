package app

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"

	sdklog "go.temporal.io/sdk/log"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"

	"github.com/turnstone-run/turnstone/internal/middleware/pii"
	"github.com/turnstone-run/turnstone/internal/redact"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

// Logger returns the process's logger: JSON for machines, or console for people. It redacts the secrets, and what looks like one
// (docs/guides/logging.md). [Secrets] returns those of the process.
func Logger(c Log, secrets ...string) (*zap.Logger, error) {
	r, err := Redactor(c.PII, secrets...)
	if err != nil {
		return nil, err
	}
	return logs.New(logs.Config{Level: c.Level, Format: c.Format, Output: os.Stderr, Redactor: r})
}

// Redactor returns a redactor of these secrets and of personal data of these kinds, for texts that operators read.
func Redactor(personal []string, secrets ...string) (*redact.Redactor, error) {
	rules := redact.Rules{Secrets: secrets}
	for _, kind := range personal {
		rule, err := pii.NewRule(pii.RuleConfig{Type: kind})
		if err != nil {
			return nil, fmt.Errorf("log.pii: %w", err)
		}
		rules.Personal = append(rules.Personal, rule)
	}
	return redact.New(rules), nil
}

// Secrets returns the credentials of a configuration, also those within URLs and DSNs, and those of an environment in the form of os.Environ,
// which it recognises by their names.
func Secrets(c *Config, env []string) []string {
	all := configuredCredentials(c)
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case name == "PWD" || name == "OLDPWD": // folders
		case strings.Contains(value, "://"):
			all = append(all, credentialsOf(value)...)
		default:
			all = append(all, credentialsWithin(entry)...)
		}
	}
	return all
}

// configuredCredentials returns the credentials that a configuration holds.
func configuredCredentials(c *Config) (all []string) {
	eachValue(reflect.ValueOf(c).Elem(), "", func(_ string, value reflect.Value, _ reflect.StructTag) {
		switch v := value.Interface().(type) {
		case Secret:
			all = append(all, credentialsOf(v.Reveal())...)
		case string:
			all = append(all, credentialsWithin(v)...)
		case []string:
			for _, text := range v {
				all = append(all, credentialsWithin(text)...)
			}
		}
	})
	return all
}

// credentialsWithin returns the credentials of a text that is no secret as a whole: of a URL, or of NAME=value of an environment.
func credentialsWithin(text string) []string {
	if strings.Contains(text, "://") {
		return credentialsOf(text)
	}
	if name, value, ok := strings.Cut(text, "="); ok && (redact.IsSecretName(name) || strings.HasSuffix(name, "_KEY")) {
		return []string{value}
	}
	return nil
}

var dsnPassword = regexp.MustCompile(`password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))`)

// credentialsOf returns the secret parts of a text: the password and secret parameters of a URL, the password of a DSN, else all of it.
func credentialsOf(s string) []string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || !strings.Contains(s, "://") {
		if m := dsnPassword.FindStringSubmatch(s); m != nil {
			return []string{m[1] + m[2]}
		}
		return []string{s}
	}
	var all []string
	if u.User != nil {
		if password, ok := u.User.Password(); ok { // a name alone is an account's more often than a token
			all = append(all, password)
		}
	}
	for name, values := range u.Query() {
		if redact.IsSecretName(name) {
			all = append(all, values...)
		}
	}
	return all
}

// TemporalLogger gives the Temporal SDK the process's logger.
func TemporalLogger(l *zap.Logger) sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(zapslog.NewHandler(l.Core(), zapslog.WithName("temporal"))))
}

// Version is the version of the build: the module's, or the commit's for a build from a checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
