package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"
)

// Redacted returns a copy that may be shown: secrets become "[redacted]", and URLs lose their credentials.
func (c Config) Redacted() Config {
	hideSecrets(reflect.ValueOf(&c).Elem())
	for i := range c.Tools.MCP.Servers {
		for j, entry := range c.Tools.MCP.Servers[i].Env { // an environment often holds keys
			name, _, _ := strings.Cut(entry, "=")
			c.Tools.MCP.Servers[i].Env[j] = name + "=" + redacted
		}
	}
	return c
}

// hideSecrets redacts a value in place. Lists are copied first, so that the original keeps its own.
func hideSecrets(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				hideSecrets(v.Field(i))
			}
		}
	case reflect.Slice:
		list := reflect.AppendSlice(reflect.Zero(v.Type()), v)
		for i := range list.Len() {
			hideSecrets(list.Index(i))
		}
		v.Set(list)
	case reflect.String:
		secret, isSecret := reflect.TypeAssert[Secret](v)
		switch {
		case isSecret && secret != "":
			v.SetString(redactURL(secret.Reveal()))
		case !isSecret && strings.Contains(v.String(), "://"):
			v.SetString(redactURL(v.String()))
		}
	default: // holds no text
	}
}

// redactURL keeps scheme, host, path and the names of query parameters. A user's name is kept only beside a password: alone it may be a
// token. Anything but a URL with "://" becomes "[redacted]".
func redactURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || !strings.Contains(s, "://") || u.Opaque != "" {
		return redacted
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

// yamlText returns a value as YAML. It quotes every text: a JSON string is a YAML string, whatever it holds.
func yamlText(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return quote(text(v))
	case reflect.Slice:
		quoted := make([]string, v.Len())
		for i := range quoted {
			quoted[i] = quote(v.Index(i).String())
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	default:
		return text(v)
	}
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(strings.ReplaceAll(s, "${", "$${")) // strings always encode
	return strings.TrimSpace(b.String())
}
