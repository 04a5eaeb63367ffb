package app

import (
	"cmp"
	"net"
	"net/mail"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Rules of settings, as tags of their fields:
//
//   - default:"30s" is the value without a file, variable and flag.
//   - range:"1s..1h" bounds a number, size or duration; range:"0|20..400" also allows 0.
//   - oneof:"json console" lists the texts that are allowed.
//   - check:"required,url" names checks of [loader.checkText].

// setDefaults sets the fields of a section to the defaults of their tags.
func setDefaults(section reflect.Value) {
	for i := range section.NumField() {
		field, value := section.Type().Field(i), section.Field(i)
		switch text, ok := field.Tag.Lookup("default"); {
		case ok:
			_ = setText(value, text) // a test sets every default
		case field.IsExported() && value.Kind() == reflect.Struct:
			setDefaults(value)
		}
	}
}

// checkField checks a value by its tags.
func (l *loader) checkField(path string, value reflect.Value, tag reflect.StructTag) {
	if bounds := tag.Get("range"); bounds != "" {
		l.checkRange(path, value, bounds)
	}
	if allowed := tag.Get("oneof"); allowed != "" {
		l.oneOf(path, text(value), strings.Fields(allowed)...)
	}
	if checks := tag.Get("check"); checks != "" {
		for check := range strings.SplitSeq(checks, ",") {
			l.checkText(path, check, text(value))
		}
	}
}

// checkRange also refuses NaN, which no comparison finds outside.
func (l *loader) checkRange(path string, value reflect.Value, bounds string) {
	bounds, zeroAllowed := strings.CutPrefix(bounds, "0|")
	if zeroAllowed && value.IsZero() {
		return
	}
	lowText, highText, _ := strings.Cut(bounds, "..")
	low, high := reflect.New(value.Type()).Elem(), reflect.New(value.Type()).Elem()
	_, _ = setText(low, lowText), setText(high, highText) // a test reads every range
	inside := value.CanInt() && value.Int() >= low.Int() && value.Int() <= high.Int()
	if value.CanFloat() {
		inside = value.Float() >= low.Float() && value.Float() <= high.Float()
	}
	if !inside {
		l.fault(path, "want %v to %v, got %v", low, high, value)
	}
}

// between checks a range that depends on other settings.
func between[T cmp.Ordered](l *loader, path string, value, low, high T) {
	if value < low || value > high {
		l.fault(path, "want %v to %v, got %v", low, high, value)
	}
}

// checkText checks a text. All checks but required and name allow an empty one.
func (l *loader) checkText(path, check, value string) {
	switch check {
	case "required":
		if strings.TrimSpace(value) == "" {
			l.fault(path, "is required")
		}
	case "name":
		if !agent.ValidName(value) {
			l.fault(path, "want 1 to 128 of A-Z a-z 0-9 . _ -")
		}
	case "address":
		l.address(path, value, 0)
	case "url":
		if u, err := url.Parse(value); value != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
			l.fault(path, "want an http or https URL without credentials")
		}
	case "redis":
		if u, err := url.Parse(value); value != "" && (err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme)) {
			l.fault(path, "want redis://host:port, rediss://host:port or unix:///path")
		}
	case "approvals":
		if err := agent.ApprovalPolicy(value).Validate(path); err != nil {
			l.fault(path, "%s", agent.FailureOf(err).Message)
		}
	case "email":
		if _, err := mail.ParseAddress(value); err != nil {
			l.fault(path, "want an email address")
		}
	case "key":
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			l.fault(path, "holds a space, a line break or a character outside ASCII")
		}
	}
}

func (l *loader) oneOf(path, value string, allowed ...string) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	if value == "" {
		l.fault(path, "is required: one of %s", strings.Join(allowed, ", "))
	} else {
		l.fault(path, "want one of %s, got %q", strings.Join(allowed, ", "), value)
	}
	return false
}

// address wants host:port with a port of at least minPort; an empty host is every interface.
func (l *loader) address(path, value string, minPort uint64) {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		l.fault(path, "want host:port, got %q", value)
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < minPort {
		l.fault(path, "want a port from %d to 65535, got %q", minPort, port)
	}
}

// unique refuses a name that is among the seen ones, and adds it to them.
func (l *loader) unique(path, name string, seen map[string]bool, message string) {
	if seen[name] {
		l.fault(path, message, name)
	}
	seen[name] = true
}

// fault adds a fault. It names the place that the value came from; for an element of a list that is the place of the list.
func (l *loader) fault(path, format string, args ...any) {
	origin := ""
	for p := path; origin == "" && p != ""; p = p[:max(strings.LastIndexAny(p, ".["), 0)] {
		origin = l.cfg.origins[p]
	}
	l.faults.add(origin, path, format, args...)
}
