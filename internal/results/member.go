package results

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/turnstone-run/turnstone/agent"
)

// findRows reads a result's document up to its rows. It returns a reader of the member data, or the value of the member data_ref, whichever comes first,
// or neither.
func findRows(document io.Reader) (data *value, dataRef string, err error) {
	d := json.NewDecoder(document)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, "", decodeError(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, "", decodeError(err)
		}
		switch name {
		case "data":
			return findValue(io.MultiReader(d.Buffered(), document))
		case "data_ref":
			if err := d.Decode(&dataRef); err != nil {
				return nil, "", decodeError(err)
			}
			return nil, dataRef, nil
		}
		if err := skipValue(d); err != nil {
			return nil, "", decodeError(err)
		}
	}
	_, err = d.Token() // the end of the object, or the error that has ended the loop
	return nil, "", decodeError(err)
}

// decodeError returns the error of a document that cannot be decoded. It returns nil for nil, and an error of the blob store unchanged.
func decodeError(err error) error {
	if _, ok := err.(*agent.Error); ok || err == nil { //nolint:errorlint // the blob store does not wrap its errors
		return err
	}
	return agent.Errorf(agent.CodeInternal, "", "decode result: %w", err)
}

// skipValue reads one value.
func skipValue(d *json.Decoder) error {
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

// findValue returns a reader of the value after a member's name, or nil if the value is null.
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
	r         *bufio.Reader
	depth     int  // of arrays and objects
	inString  bool // whether the next byte is in a string
	isEscaped bool // whether the next byte follows a backslash
	hasBegun  bool
	hasEnded  bool
}

func (v *value) Read(p []byte) (int, error) {
	if v.hasEnded {
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
	buffered, _ := v.r.Peek(min(len(p), v.r.Buffered())) // it cannot fail for buffered bytes
	n := v.scan(buffered)
	copy(p, buffered[:n])
	if _, err := v.r.Discard(n); err != nil {
		return n, err
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// scan returns how many of the next bytes belong to the value. It sets hasEnded if the value ends within them.
func (v *value) scan(next []byte) int {
	for i, c := range next {
		switch {
		case v.isEscaped:
			v.isEscaped = false
		case v.inString && c == '\\':
			v.isEscaped = true
		case c == '"':
			v.inString = !v.inString
		case v.inString:
		case c == '{' || c == '[':
			v.depth++
		case c == '}' || c == ']':
			if v.depth == 0 { // it ends the object around a number or literal
				v.hasEnded = true
				return i
			}
			v.depth--
		case v.depth == 0 && v.hasBegun && (c == ',' || isSpace(c)):
			v.hasEnded = true
			return i
		}
		v.hasBegun = true
		if v.depth == 0 && !v.inString && (c == '}' || c == ']' || c == '"') {
			v.hasEnded = true
			return i + 1
		}
	}
	return len(next)
}

// member reads a value and then the rest of its document. So the blob store has verified the whole document when the value ends.
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
