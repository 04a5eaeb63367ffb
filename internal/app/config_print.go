package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Redacted is a copy that may be shown: secrets become "[redacted]", and URLs keep only what is no credential.
func (c Config) Redacted() Config {
	c.Models = slices.Clone(c.Models)
	for i := range c.Models {
		hideSecrets(reflect.ValueOf(&c.Models[i]).Elem())
	}
	c.Tools.MCP.Servers = slices.Clone(c.Tools.MCP.Servers)
	for i := range c.Tools.MCP.Servers {
		s := &c.Tools.MCP.Servers[i]
		s.Env = slices.Clone(s.Env)
		for j, entry := range s.Env { // an environment is where keys are
			name, _, _ := strings.Cut(entry, "=")
			s.Env[j] = name + "=" + redacted
		}
	}
	hideSecrets(reflect.ValueOf(&c).Elem())
	return c
}

func hideSecrets(section reflect.Value) {
	for i := range section.NumField() {
		if !section.Type().Field(i).IsExported() {
			continue
		}
		v := section.Field(i)
		switch p := v.Addr().Interface().(type) {
		case *Secret:
			if *p != "" {
				*p = Secret(redactURL(p.Reveal(), redacted))
			}
		case *string:
			if strings.Contains(*p, "://") {
				*p = redactURL(*p, redacted)
			}
		case *[]string:
			*p = slices.Clone(*p)
			for i, s := range *p {
				if strings.Contains(s, "://") {
					(*p)[i] = redactURL(s, redacted)
				}
			}
		default:
			if v.Kind() == reflect.Struct {
				hideSecrets(v)
			}
		}
	}
}

// redactURL keeps scheme, host, path and the names of query parameters: of the user part only a name that has a password beside it,
// since a name alone may be a token. Anything but a URL with "://" becomes otherwise.
func redactURL(s, otherwise string) string {
	u, err := url.Parse(s)
	if err != nil || !strings.Contains(s, "://") || u.Opaque != "" {
		return otherwise
	}
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	if u.User != nil {
		if _, hasPassword := u.User.Password(); hasPassword {
			b.WriteString(url.User(u.User.Username()).String() + ":")
		}
		b.WriteString(redacted + "@")
	}
	b.WriteString(u.Host + u.EscapedPath())
	separator := "?"
	for parameter := range strings.SplitSeq(u.RawQuery, "&") {
		if name, _, ok := strings.Cut(parameter, "="); ok {
			b.WriteString(separator + name + "=" + redacted)
		} else if parameter != "" { // a bare word may be a token
			b.WriteString(separator + redacted)
		}
		separator = "&"
	}
	return b.String()
}

// Print writes the effective configuration as YAML, redacted, with the origin of each value that is not a default as a comment. What
// it writes is a valid turnstone.yaml, but for the secrets.
func (c Config) Print(w io.Writer) error {
	shown := c.Redacted()
	p := printer{cfg: &shown}
	p.section(reflect.ValueOf(&shown).Elem(), "", "")
	if _, err := w.Write(p.out.Bytes()); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

type printer struct {
	cfg *Config
	out bytes.Buffer
}

func (p *printer) section(section reflect.Value, path, indent string) {
	for i := range section.NumField() {
		info, value := section.Type().Field(i), section.Field(i)
		name, inline := yamlName(info)
		at := join(path, name)
		switch {
		case !info.IsExported():
		case inline:
			p.section(value, path, indent)
		case isListOfStructs(info.Type):
			p.list(value, at, indent, name)
		case value.Kind() == reflect.Struct:
			p.line(indent+name+":", "")
			p.section(value, at, indent+"  ")
		default:
			p.line(indent+name+": "+yamlText(value), p.cfg.origins[at])
		}
	}
}

// list prints a list of sections.
func (p *printer) list(list reflect.Value, path, indent, name string) {
	if list.Len() == 0 {
		p.line(indent+name+": []", "")
		return
	}
	p.line(indent+name+":", "")
	for i := range list.Len() {
		at := fmt.Sprintf("%s[%d]", path, i)
		p.line(indent+"  -", p.cfg.origins[at])
		p.section(list.Index(i), at, indent+"    ")
	}
}

func (p *printer) line(text, origin string) {
	p.out.WriteString(text)
	if origin != "" {
		p.out.WriteString("  # " + strings.Join(strings.Fields(origin), " ")) // a file's name may hold a line break
	}
	p.out.WriteByte('\n')
}

// yamlText quotes texts always: a JSON string is a YAML one, whatever it holds.
func yamlText(v reflect.Value) string {
	switch p := v.Addr().Interface().(type) {
	case *bool, *int, *int64, *float64, *Size, *time.Duration:
		return text(v)
	case *[]string:
		quoted := make([]string, len(*p))
		for i, s := range *p {
			quoted[i] = quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	default:
		return quote(text(v))
	}
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ReplaceAll(s, "${", "$${")) // strings always encode
	return strings.TrimSpace(b.String())
}
