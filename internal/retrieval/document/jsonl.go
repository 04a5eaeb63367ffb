package document

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// parseJSONL reads one document from each line. A line is an object with a text as "text", "content" or "page_content", the first one that is present. It
// may have "id", "title", and "url" or "source". Its other members are metadata. The members of an object "metadata", as in LangChain, count as
// members of the line. Blank lines are skipped, but count in line numbers.
func parseJSONL(ctx context.Context, data []byte) ([]Document, error) {
	if hasUTF16Mark(data) {
		return nil, agent.Invalid("body", "JSONL is UTF-8, and this is UTF-16")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var documents []Document
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if number%1000 == 0 {
			if err := agent.Interrupted(ctx, "read document"); err != nil {
				return nil, err
			}
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(line) > MaxLine {
			return nil, agent.FieldErrorf(agent.CodeOverflow, "document_line", "line %d: is longer than %d MiB", number, MaxLine>>20)
		}
		if len(documents) == MaxDocuments {
			return nil, agent.FieldErrorf(agent.CodeOverflow, "document_line", "line %d: more than %d documents: split the file", number, MaxDocuments)
		}
		d, err := parseLine(line)
		if err != nil {
			return nil, agent.Invalid("document_line", "line %d: %w", number, err)
		}
		d.Line = number
		documents = append(documents, d)
	}
	if len(documents) == 0 {
		return nil, agent.Invalid("body", "holds no document")
	}
	return documents, nil
}

func parseLine(line []byte) (Document, error) {
	var fields map[string]jsontext.Value
	if err := jsonv2.Unmarshal(line, &fields); err != nil {
		return Document{}, agent.Invalid("", "malformed JSON: %w", err)
	}
	if fields == nil {
		return Document{}, agent.Invalid("", "want an object, got null")
	}
	d := Document{MIMEType: MIMEJSONL}
	text, err := takeString(fields, "text", "content", "page_content")
	if err != nil {
		return Document{}, err
	}
	if d.Sections = appendSection(nil, Section{Text: text}); len(d.Sections) == 0 {
		return Document{}, agent.Invalid("text", "is missing or empty (it may be called content or page_content)")
	}
	if err := mergeMetadata(fields); err != nil {
		return Document{}, err
	}
	if d.ID, err = takeID(fields); err != nil {
		return Document{}, err
	}
	if d.Title, err = takeString(fields, "title"); err != nil {
		return Document{}, err
	}
	if d.Source, err = takeString(fields, "url", "source"); err != nil {
		return Document{}, err
	}
	if len(fields) > 0 {
		if d.Metadata, err = Metadata(fields); err != nil {
			return Document{}, err
		}
	}
	return d, nil
}

// mergeMetadata moves the members of "metadata" to the line, unless the line has a member of the same name.
func mergeMetadata(fields map[string]jsontext.Value) error {
	raw, ok := fields["metadata"]
	if !ok || raw.Kind() != '{' {
		return nil
	}
	var inner map[string]jsontext.Value
	if err := jsonv2.Unmarshal(raw, &inner); err != nil {
		return agent.Invalid("metadata", "%w", err)
	}
	delete(fields, "metadata")
	for k, v := range inner {
		if outer, ok := fields[k]; !ok || outer.Kind() == 'n' {
			fields[k] = v
		}
	}
	return nil
}

// takeString removes the first of these fields that is present, and returns it. null counts as absent.
func takeString(fields map[string]jsontext.Value, names ...string) (string, error) {
	for _, name := range names {
		raw, ok := fields[name]
		if !ok {
			continue
		}
		if raw.Kind() == 'n' {
			delete(fields, name)
			continue
		}
		var s string
		if raw.Kind() != '"' || jsonv2.Unmarshal(raw, &s) != nil {
			return "", agent.Invalid(name, "want a string")
		}
		delete(fields, name)
		return cleanText(s), nil
	}
	return "", nil
}

// takeID removes the field id and returns it. It may be a whole number.
func takeID(fields map[string]jsontext.Value) (string, error) {
	if raw := fields["id"]; raw.Kind() == '0' {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return "", agent.Invalid("id", "want a string or a whole number, got %s", raw)
		}
		delete(fields, "id")
		return strconv.FormatInt(n, 10), nil
	}
	return takeString(fields, "id")
}

// Metadata returns a value as a canonical JSON object of at most 64 KiB, with sorted names and without NUL in strings, which PostgreSQL cannot store.
func Metadata(v any) (json.RawMessage, error) {
	raw, err := jsonv2.Marshal(v)
	if err != nil {
		return nil, agent.Invalid("metadata", "%w", err)
	}
	if bytes.Contains(raw, []byte(`\u0000`)) {
		raw = dropNUL(raw)
	}
	value := jsontext.Value(raw)
	if err := value.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
		return nil, agent.Invalid("metadata", "%w", err)
	}
	if value.Kind() != '{' {
		return nil, agent.Invalid("metadata", "want an object")
	}
	if len(value) > maxMetadata {
		return nil, agent.FieldErrorf(agent.CodeOverflow, "metadata", "is larger than %d KiB", maxMetadata>>10)
	}
	return json.RawMessage(value), nil
}

const maxMetadata = 64 << 10

// dropNUL removes the escape sequence \u0000, but not the text \\u0000, which is an escaped backslash before u0000.
func dropNUL(raw []byte) []byte {
	cleaned := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			cleaned = append(cleaned, raw[i])
			continue
		}
		if bytes.HasPrefix(raw[i:], []byte(`\u0000`)) {
			i += len(`\u0000`) - 1
			continue
		}
		cleaned = append(cleaned, raw[i], raw[i+1])
		i++
	}
	return cleaned
}

// looksLikeJSONL reports whether the first line that is not blank is a JSON object.
func looksLikeJSONL(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			return line[0] == '{' && len(line) <= MaxLine && json.Valid(line)
		}
	}
	return false
}
