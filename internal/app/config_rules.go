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
		l.checkOneOf(path, text(value), strings.Fields(allowed)...)
	}
	if checks := tag.Get("check"); checks != "" {
		for check := range strings.SplitSeq(checks, ",") {
			l.checkText(path, check, text(value))
		}
	}
}

// checkRange checks that a number is within bounds such as "1..10". NaN is outside every range.
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
		l.addFault(path, "want %v to %v, got %v", low, high, value)
	}
}

// checkBetween checks a range that depends on other settings.
func checkBetween[T cmp.Ordered](l *loader, path string, value, low, high T) {
	if value < low || value > high {
		l.addFault(path, "want %v to %v, got %v", low, high, value)
	}
}

// checkText runs one named check on a text. The checks url, redis and key accept an empty text.
func (l *loader) checkText(path, check, value string) {
	switch check {
	case "required":
		if strings.TrimSpace(value) == "" {
			l.addFault(path, "is required")
		}
	case "name":
		if !agent.ValidName(value) {
			l.addFault(path, "want 1 to 128 of A-Z a-z 0-9 . _ -")
		}
	case "address":
		l.checkAddress(path, value, 0)
	case "url":
		if u, err := url.Parse(value); value != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil) {
			l.addFault(path, "want an http or https URL without credentials")
		}
	case "redis":
		if u, err := url.Parse(value); value != "" && (err != nil || !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme)) {
			l.addFault(path, "want redis://host:port, rediss://host:port or unix:///path")
		}
	case "approvals":
		if err := agent.ApprovalPolicy(value).Validate(path); err != nil {
			l.addFault(path, "%s", agent.FailureOf(err).Message)
		}
	case "email":
		if _, err := mail.ParseAddress(value); err != nil {
			l.addFault(path, "want an email address")
		}
	case "key":
		if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			l.addFault(path, "holds a space, a line break or a character outside ASCII")
		}
	}
}

// checkOneOf checks that a text is among the allowed ones, and reports whether it is.
func (l *loader) checkOneOf(path, value string, allowed ...string) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	if value == "" {
		l.addFault(path, "is required: one of %s", strings.Join(allowed, ", "))
	} else {
		l.addFault(path, "want one of %s, got %q", strings.Join(allowed, ", "), value)
	}
	return false
}

// checkAddress checks that a text is host:port and the port at least minPort. An empty host means every interface.
func (l *loader) checkAddress(path, value string, minPort uint64) {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		l.addFault(path, "want host:port, got %q", value)
		return
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < minPort {
		l.addFault(path, "want a port from %d to 65535, got %q", minPort, port)
	}
}

// checkUnique adds a name to seen, and a fault with the message if it was there before.
func (l *loader) checkUnique(path, name string, seen map[string]bool, message string) {
	if seen[name] {
		l.addFault(path, message, name)
	}
	seen[name] = true
}

// addFault adds a fault of a setting, with the place that its value came from. An element of a list has the place of its list.
func (l *loader) addFault(path, format string, args ...any) {
	origin := ""
	for p := path; origin == "" && p != ""; p = p[:max(strings.LastIndexAny(p, ".["), 0)] {
		origin = l.cfg.origins[p]
	}
	l.faults.add(origin, path, format, args...)
}
