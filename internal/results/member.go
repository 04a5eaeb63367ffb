package results

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/turnstone-run/turnstone/agent"
)

// findRows reads a result's document up to its rows. It returns a reader of the member data, after which the rest of the document must be
// read, or the member data_ref, or neither. It skips other members.
func findRows(document io.Reader) (data *value, dataRef string, err error) {
	d := json.NewDecoder(document)
	broken := func(err error) error {
		if _, ok := err.(*agent.Error); ok { //nolint:errorlint // the reader of the document returned it
			return err
		}
		return agent.Errorf(agent.CodeInternal, "", "decode result: %w", err)
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		if err != nil {
			return nil, "", broken(err)
		}
		return nil, "", nil
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, "", broken(err)
		}
		switch name {
		case "data":
			return findValue(io.MultiReader(d.Buffered(), document))
		case "data_ref":
			if err := d.Decode(&dataRef); err != nil {
				return nil, "", broken(err)
			}
			return nil, dataRef, nil
		}
		if err := skip(d); err != nil {
			return nil, "", broken(err)
		}
	}
	_, err = d.Token() // the end, or the error after which there are no more
	if err != nil {
		err = broken(err)
	}
	return nil, "", err
}

// skip reads one value.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// findValue returns a reader of the value after a member's name, nil for null.
func findValue(rest io.Reader) (*value, string, error) {
	r := bufio.NewReaderSize(rest, 64<<10)
	for {
		c, err := r.ReadByte()
		if err != nil {
			return nil, "", endError(err)
		}
		if c == ':' || isSpace(c) {
			continue
		}
		if err := r.UnreadByte(); err != nil {
			return nil, "", err
		}
		if c == 'n' {
			return nil, "", nil
		}
		return &value{r: r}, "", nil
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func endError(err error) error {
	if err == io.EOF { //nolint:errorlint // the contract of io.Reader
		return agent.Errorf(agent.CodeInternal, "", "decode result: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// value reads one JSON value from a stream. The value must be valid.
type value struct {
	r       *bufio.Reader
	depth   int
	inside  bool // a string literal
	escaped bool // the next byte of the string
	begun   bool
	ended   bool
}

func (v *value) Read(p []byte) (int, error) {
	if v.ended {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if v.r.Buffered() == 0 {
		if _, err := v.r.Peek(1); err != nil {
			return 0, endError(err)
		}
	}
	ahead, _ := v.r.Peek(min(len(p), v.r.Buffered())) // they are buffered
	n := v.length(ahead)
	copy(p, ahead[:n])
	if _, err := v.r.Discard(n); err != nil {
		return n, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// length returns how many of the bytes belong to the value, and sets ended if it ends among them.
func (v *value) length(ahead []byte) int {
	for i, c := range ahead {
		switch {
		case v.escaped:
			v.escaped = false
		case v.inside && c == '\\':
			v.escaped = true
		case c == '"':
			v.inside = !v.inside
		case v.inside:
		case c == '{' || c == '[':
			v.depth++
		case c == '}' || c == ']':
			if v.depth == 0 { // a number or a word ended before it
				v.ended = true
				return i
			}
			v.depth--
		case v.depth == 0 && v.begun && (c == ',' || isSpace(c)):
			v.ended = true
			return i
		}
		v.begun = true
		if v.depth == 0 && !v.inside && (c == '}' || c == ']' || c == '"') {
			v.ended = true
			return i + 1
		}
	}
	return len(ahead)
}

// member reads a value and then the rest of its document, so that the document is verified when the value ends.
type member struct {
	value    *value
	document io.ReadCloser
}

func (m *member) Read(p []byte) (int, error) {
	n, err := m.value.Read(p)
	if err != io.EOF { //nolint:errorlint // the contract of io.Reader
		return n, err
	}
	if _, err := io.Copy(io.Discard, m.value.r); err != nil {
		return n, err
	}
	return n, io.EOF
}

func (m *member) Close() error { return m.document.Close() }
