package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/devstack"
)

// ports are the ports of the embedded stack, without those of the gateway.
type ports struct{ temporal, ui, flights, redis, mail int }

// portFlag is the flag of a port.
type portFlag struct {
	port          *int
	preferred     int
	flag, purpose string
}

// variable returns the name of the environment variable that the flag overrides.
func (f *portFlag) variable() string {
	return "TURNSTONE_DEV_" + strings.ToUpper(strings.ReplaceAll(f.flag, "-", "_"))
}

func (p *ports) flags() []portFlag {
	return []portFlag{
		{&p.temporal, 7233, "temporal-port", "the Temporal server"},
		{&p.ui, 8233, "ui-port", "its Web UI"},
		{&p.flights, 8234, "flights-port", "the sample API"}, // fixed, because stored conversations contain its URL
		{&p.redis, 6379, "redis-port", "Redis; another one is taken if this is in use"},
		{&p.mail, 1025, "mail-port", "the mail server; another one is taken if this is in use"},
	}
}

func (p *ports) register(flags *pflag.FlagSet) {
	for _, f := range p.flags() {
		flags.IntVar(f.port, f.flag, f.preferred, fmt.Sprintf("port of %s; 0: any (env %s)", f.purpose, f.variable()))
	}
}

// load sets the ports for which there is a variable and no flag, and validates all ports.
func (p *ports) load(flags *pflag.FlagSet, env []string) error {
	for _, f := range p.flags() {
		name := "--" + f.flag
		if i := slices.IndexFunc(env, func(e string) bool { return strings.HasPrefix(e, f.variable()+"=") }); i >= 0 && !flags.Changed(f.flag) {
			_, text, _ := strings.Cut(env[i], "=")
			n, err := strconv.Atoi(text)
			if err != nil {
				return agent.Invalid(f.variable(), "%.100q is no number", text)
			}
			*f.port, name = n, f.variable()
		}
		if *f.port < 0 || *f.port > 65535 {
			return agent.Invalid(name, "%d is no port: want 0 to 65535", *f.port)
		}
	}
	return nil
}

// explainPort adds the flags for other ports to an error that says that ports are in use.
func (d *dev) explainPort(err error) error {
	var flags []string
	for _, f := range d.ports.flags() {
		if isPortInUse(err, *f.port) {
			flags = append(flags, fmt.Sprintf("--%s PORT (%s)", f.flag, f.variable()))
		}
	}
	if len(flags) == 0 {
		return err
	}
	return fmt.Errorf("%w; use another one: %s, or any free ones: --any-port", err, strings.Join(flags, ", "))
}

// isPortInUse reports whether the tree of err has a [devstack.PortInUseError] for the port.
func isPortInUse(err error, port int) bool {
	if inUse, ok := err.(*devstack.PortInUseError); ok { //nolint:errorlint // AsType would find only the first of several
		return inUse.Port == port
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return isPortInUse(e, port) })
	}
	wrapped := errors.Unwrap(err)
	return wrapped != nil && isPortInUse(wrapped, port)
}

// explainDoor adds the name of the setting to an error about an address of the gateway and, if the address is in use, the flag for another one.
func explainDoor(field string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %w", field, err)
	}
	name := strings.ReplaceAll(field, ".", "-")
	return fmt.Errorf("%s: %w; use another one: --%s HOST:PORT (TURNSTONE_%s), or any free one: --any-port",
		field, err, name, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

// withoutPorts returns the environment without the variables of the ports, which the service does not know.
func withoutPorts(env []string) []string {
	var p ports
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(p.flags(), func(f portFlag) bool { return f.variable() == name })
	})
}
