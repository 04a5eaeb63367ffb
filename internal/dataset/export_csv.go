package dataset

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// valueColumn holds rows that are no objects.
const valueColumn = "value"

// csvWriter writes rows. It learns the columns from all rows first.
type csvWriter struct {
	w      *bufio.Writer
	names  []string
	index  map[string]int
	next   int      // the column where the next name is looked for first
	cells  [][]byte // JSON, nil for nothing; of the row in work
	text   []byte
	disarm bool
}

// learn adds the columns of a row.
func (c *csvWriter) learn(row []byte) error {
	if row[0] != '{' {
		return c.column(valueColumn)
	}
	c.next = 0
	var m Member
	for members := MembersOf(row); members.Next(&m); {
		if _, known := c.find(&m); known {
			continue
		}
		if err := c.column(m.Name()); err != nil {
			return err
		}
	}
	return nil
}

// find returns the column of a member. Most rows have their members in the order of the columns.
func (c *csvWriter) find(m *Member) (int, bool) {
	if c.next < len(c.names) && m.Is(c.names[c.next]) {
		c.next++
		return c.next - 1, true
	}
	i, known := Lookup(m, c.index)
	c.next = i + 1
	return i, known
}

func (c *csvWriter) column(name string) error {
	if _, known := c.index[name]; known {
		return nil
	}
	if len(c.names) == MaxColumns {
		return agent.Errorf(agent.CodeOverflow, "", "has more than %d columns", MaxColumns)
	}
	c.index[name] = len(c.names)
	c.names = append(c.names, name)
	return nil
}

func (c *csvWriter) header() {
	for i, name := range c.names {
		c.separate(i)
		c.cell([]byte(name), true)
	}
	if len(c.names) > 0 {
		_, _ = c.w.WriteString("\r\n") // Flush returns its error
	}
}

func (c *csvWriter) row(row []byte) error {
	if c.cells == nil {
		c.cells = make([][]byte, len(c.names))
	}
	clear(c.cells)
	c.next = 0
	if row[0] == '{' {
		var m Member
		for members := MembersOf(row); members.Next(&m); {
			if i, known := c.find(&m); known {
				c.cells[i] = row[m.From:m.To]
			}
		}
	} else if i, known := c.index[valueColumn]; known {
		c.cells[i] = row
	}
	for i, v := range c.cells {
		c.separate(i)
		if err := c.value(v); err != nil {
			return err
		}
	}
	_, err := c.w.WriteString("\r\n")
	return err
}

func (c *csvWriter) end() error { return c.w.Flush() }

func (c *csvWriter) separate(i int) {
	if i > 0 {
		_ = c.w.WriteByte(',') // Flush returns its error
	}
}

func (c *csvWriter) value(v []byte) error {
	switch {
	case len(v) == 0 || v[0] == 'n':
		if len(c.cells) == 1 { // an empty line would be no record
			_, _ = c.w.WriteString(`""`) // Flush returns its error
		}
	case v[0] == '"':
		var err error
		if c.text, err = jsontext.AppendUnquote(c.text[:0], v); err != nil {
			return agent.Errorf(agent.CodeInternal, "write CSV", "%w", err)
		}
		c.cell(c.text, true)
	case v[0] == '{' || v[0] == '[':
		c.text = appendCompact(c.text[:0], v)
		c.cell(c.text, false)
	default:
		_, _ = c.w.Write(v) // Flush returns its error
	}
	return nil
}

// cell writes text, in quotes where it needs them. Errors stay in the writer until Flush.
func (c *csvWriter) cell(text []byte, isString bool) {
	armed := c.disarm && isString && len(text) > 0 && strings.IndexByte("=+-@\t\r", text[0]) >= 0
	if len(text) > 0 && !armed && !bytes.ContainsAny(text, ",\"\r\n") && text[0] != ' ' && text[0] != '\t' {
		_, _ = c.w.Write(text)
		return
	}
	_ = c.w.WriteByte('"')
	if armed {
		_ = c.w.WriteByte('\'')
	}
	for {
		q := bytes.IndexByte(text, '"')
		if q < 0 {
			break
		}
		_, _ = c.w.Write(text[:q+1])
		_ = c.w.WriteByte('"')
		text = text[q+1:]
	}
	_, _ = c.w.Write(text)
	_ = c.w.WriteByte('"')
}
