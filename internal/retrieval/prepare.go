package retrieval

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/retrieval/document"
)

const (
	defaultChunk   = 1_000
	maxChunk       = 8_000
	overlapPercent = 15

	maxID     = 512 // bytes
	maxTitle  = 500 // runes
	maxSource = 2_048
)

// settings are the checked settings of a request with their defaults.
type settings struct {
	id, source    string
	size, overlap int  // of chunks
	embed         bool // make vectors
	metadata      json.RawMessage
}

// requestSettings returns the settings of a request, or an error with the field that is invalid.
func requestSettings(r *AddRequest, embed bool) (settings, error) {
	if err := checkNames(r.Tenant, r.Collection); err != nil {
		return settings{}, err
	}
	s := settings{size: cmp.Or(r.Definition.ChunkSize, defaultChunk), overlap: r.Definition.Overlap, embed: embed}
	if s.size < 1 || s.size > maxChunk {
		return settings{}, agent.Invalid("chunk_size", "want 1 to %d characters, got %d", maxChunk, s.size)
	}
	if s.overlap == 0 {
		s.overlap = s.size * overlapPercent / 100
	}
	if s.overlap < 0 || s.overlap >= s.size {
		return settings{}, agent.Invalid("chunk_overlap", "want less than the chunk size of %d, got %d", s.size, s.overlap)
	}
	s.source = cmp.Or(r.Source, r.Name)
	s.id = cmp.Or(r.ID, s.source)
	if r.ID == "" && len(s.id) > maxID { // a long URL
		sum := sha256.Sum256([]byte(s.id))
		s.id = "sha256:" + hex.EncodeToString(sum[:])
	}
	if s.id == "" {
		return settings{}, agent.Invalid("id", "give an id, a source or a name")
	}
	err := cmp.Or(checkLine("id", s.id, maxID), checkLine("source", s.source, maxSource), checkLine("title", r.Title, maxTitle*utf8.UTFMax))
	if err != nil {
		return settings{}, err
	}
	if len(bytes.TrimSpace(r.Metadata)) > 0 {
		s.metadata, err = document.Metadata(jsontext.Value(r.Metadata))
	}
	return s, err
}

func checkNames(tenant, collection string) error {
	for _, name := range []struct{ field, value string }{{"tenant", tenant}, {"collection", collection}} {
		if name.value == "" {
			return agent.Invalid(name.field, "is missing")
		}
		if err := checkLine(name.field, name.value, maxID); err != nil {
			return err
		}
	}
	return nil
}

// checkLine returns an error for a text that is too long or cannot be printed on one line.
func checkLine(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return agent.Invalid(field, "is longer than %d bytes", limit)
	case !utf8.ValidString(s):
		return agent.Invalid(field, "is not UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return agent.Invalid(field, "contains control characters")
	default:
		return nil
	}
}

// prepareDocuments returns the documents of a file without their vectors.
func prepareDocuments(r *AddRequest, s settings, documents []document.Document, size int64) ([]preparedDocument, error) {
	all := make([]preparedDocument, 0, len(documents))
	lines := map[string]int{} // by id
	remaining := maxChunks
	for i := range documents {
		d := &documents[i]
		prepared, err := prepareDocument(r, s, d, remaining)
		if err != nil {
			if d.Line > 0 {
				return nil, agent.FieldErrorf(agent.CodeOf(err), "document_line", "line %d: %w", d.Line, err)
			}
			return nil, err
		}
		id := prepared.document.ID
		if line, ok := lines[id]; ok {
			return nil, agent.Invalid("document_line", "line %d: its id %q is that of line %d", d.Line, id, line)
		}
		lines[id] = d.Line
		remaining -= len(prepared.chunks)
		if d.Line == 0 {
			prepared.document.Bytes = size
		}
		all = append(all, prepared)
	}
	return all, nil
}

// prepareDocument returns a document without its vectors, with at most limit chunks.
func prepareDocument(r *AddRequest, s settings, d *document.Document, limit int) (preparedDocument, error) {
	k := agent.KnowledgeDocument{
		Tenant: r.Tenant, Collection: r.Collection, ID: s.id, MIMEType: d.MIMEType, Metadata: s.metadata,
		Source: cmp.Or(d.Source, s.source),
		Title:  cmp.Or(r.Title, d.Title),
	}
	if d.Line > 0 {
		k.ID = cmp.Or(d.ID, fmt.Sprintf("%s#%d", s.id, d.Line))
		k.Title = cmp.Or(d.Title, r.Title)
		for i := range d.Sections {
			k.Bytes += int64(len(d.Sections[i].Text))
		}
		if err := cmp.Or(checkLine("id", k.ID, maxID), checkLine("source", k.Source, maxSource)); err != nil {
			return preparedDocument{}, err
		}
		if d.Metadata != nil {
			k.Metadata = mergeMissing(s.metadata, d.Metadata)
		}
	}
	k.Title = oneLine(cmp.Or(k.Title, path.Base(cmp.Or(r.Name, k.Source, k.ID))))
	chunks, err := document.Split(d, s.size, s.overlap, limit)
	if err != nil {
		return preparedDocument{}, err
	}
	k.Chunks = len(chunks)
	k.Hash = contentHash(r, s, &k, chunks)
	return preparedDocument{document: k, chunks: chunks}, nil
}

// mergeMissing returns an object with the members of own, and those of defaults that own lacks.
func mergeMissing(defaults, own json.RawMessage) json.RawMessage {
	merged := map[string]json.RawMessage{}
	for _, object := range []json.RawMessage{defaults, own} {
		if len(object) > 0 && json.Unmarshal(object, &merged) != nil {
			return own
		}
	}
	raw, err := document.Metadata(merged)
	if err != nil {
		return own
	}
	return raw
}

func oneLine(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return clip.Runes(strings.Join(words, " "), maxTitle)
}

// contentHash returns a hash of everything that is stored of a document, and of the embedding model. It hashes chunks and not the bytes of the file, so
// it changes when a new version reads a format better.
func contentHash(r *AddRequest, s settings, d *agent.KnowledgeDocument, chunks []agent.KnowledgeChunk) string {
	h := sha256.New()
	add := func(text string) {
		fmt.Fprintf(h, "%d:", len(text)) // different lists of texts have different hashes
		h.Write([]byte(text))
	}
	for _, text := range []string{d.Title, d.Source, d.MIMEType, string(d.Metadata), fmt.Sprint(s.size, s.overlap)} {
		add(text)
	}
	if s.embed {
		add(r.Embedding.Profile)
		add(r.Embedding.Provider)
		add(r.Embedding.Model)
	}
	for i := range chunks {
		fmt.Fprintf(h, "p%d", chunks[i].Page)
		add(chunks[i].Text)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
