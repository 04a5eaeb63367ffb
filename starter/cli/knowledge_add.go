package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) knowledgeAddCommand() *cobra.Command {
	var u uploads
	cmd := &cobra.Command{
		Use: "add <collection> <file|folder|->…", Short: "Add files to a collection", Args: cobra.MinimumNArgs(2),
		Long: `Add files to a collection: text, Markdown, HTML, PDF, and JSONL with one document a line. A file that was added before replaces what it
was, but for lines that a JSONL file has lost: their documents stay until they are deleted. One that has not changed costs nothing.
Of a folder all *.txt, *.md, *.markdown, *.html, *.htm, *.pdf, *.jsonl and *.ndjson are
added, with those of its subfolders; hidden files and symbolic links are not. "-" is standard input, and wants --type.

A file that is refused does not keep the others from being added; the exit code is that of the first refusal.`,
		Example: `  starter knowledge add handbook docs/
  starter knowledge add handbook rules.pdf --id rules --title "House rules" --source https://example.com/rules.pdf
  curl -s https://example.com/faq.html | starter knowledge add handbook - --type html --source https://example.com/faq.html`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			files, err := u.findFiles(ctx, a.in, args[1:])
			if err != nil {
				return err
			}
			return a.upload(ctx, c, args[0], files)
		}),
	}
	cmd.Flags().StringVar(&u.id, "id", "", "of the document (default: made of the source); for one file")
	cmd.Flags().StringVar(&u.title, "title", "", "of the document (default: its own); for one file")
	cmd.Flags().StringVar(&u.source, "source", "", "URL or name for citations (default: the file's name); for one file")
	cmd.Flags().StringVar(&u.kind, "type", "", "text, markdown, html, pdf, jsonl or a MIME type (default: by the file's name)")
	return cmd
}

// uploads are the flags of knowledge add and the files to add.
type uploads struct {
	id, title, source, kind string

	found      []upload
	stdinFound bool
	entries    int // files and folders in all folders
}

// upload is a file to add.
type upload struct {
	name string // for messages
	file client.File
	open func() (io.ReadCloser, error)
}

// maxUploads is the largest number of files that one command adds.
const maxUploads = 10_000

// mimeTypeByName returns the MIME type for the extension of a file's name, or "" if it is unknown.
func mimeTypeByName(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".txt", ".text":
		return "text/plain"
	case ".md", ".markdown":
		return "text/markdown"
	case ".html", ".htm":
		return "text/html"
	case ".pdf":
		return "application/pdf"
	case ".jsonl", ".ndjson":
		return "application/x-ndjson"
	default:
		return ""
	}
}

// mimeTypeByFlag returns the MIME type for the value of --type.
func mimeTypeByFlag(kind string) (string, error) {
	switch {
	case kind == "" || strings.Contains(kind, "/"):
		return kind, nil
	case kind == "text":
		return "text/plain", nil
	}
	if mimeType := mimeTypeByName("." + kind); mimeType != "" {
		return mimeType, nil
	}
	return "", fmt.Errorf("--type is %q, want text, markdown, html, pdf, jsonl or a MIME type", kind)
}

// findFiles returns the files to add, without reading them. Errors are of type [usageError].
func (u *uploads) findFiles(ctx context.Context, stdin io.Reader, names []string) ([]upload, error) {
	for _, name := range names {
		if err := u.find(ctx, stdin, name); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, usageError{err}
		}
	}
	mimeType, err := mimeTypeByFlag(u.kind)
	switch {
	case err != nil:
		return nil, usageError{err}
	case len(u.found) > 1 && (u.id != "" || u.title != "" || u.source != ""):
		return nil, usageError{fmt.Errorf("--id, --title and --source are for one file, not for %d", len(u.found))}
	}
	for i := range u.found {
		f := &u.found[i].file
		f.ID, f.Title = u.id, u.title
		f.MIMEType = cmp.Or(mimeType, f.MIMEType)
		f.Source = cmp.Or(u.source, f.Source)
		if f.MIMEType == "" && f.Source == "" {
			return nil, usageError{errors.New("standard input wants --type, or a --source whose name says it")}
		}
	}
	return u.found, nil
}

func (u *uploads) find(ctx context.Context, stdin io.Reader, name string) error {
	if name == "-" {
		if u.stdinFound {
			return errors.New("standard input is named twice")
		}
		u.stdinFound = true
		u.found = append(u.found, upload{name: "stdin", open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }})
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return u.addFolder(ctx, name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is no regular file", name)
	}
	return u.add(name)
}

func (u *uploads) addFolder(ctx context.Context, folder string) error {
	before := len(u.found)
	err := walkFolder(ctx, folder, &u.entries, func(_ *os.Root, name string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() || mimeTypeByName(name) == "" {
			return nil
		}
		return u.add(filepath.Join(folder, name))
	})
	if err == nil && len(u.found) == before {
		err = fmt.Errorf("%s: no file in this folder is of a type that can be added", folder)
	}
	return err
}

func (u *uploads) add(path string) error {
	if len(u.found) == maxUploads {
		return fmt.Errorf("%s: more than %d files", path, maxUploads)
	}
	path = filepath.Clean(path) // so that ./a.md and a.md are the same document
	u.found = append(u.found, upload{
		name: path, file: client.File{Source: filepath.ToSlash(path), MIMEType: mimeTypeByName(path)},
		open: func() (io.ReadCloser, error) { return os.Open(path) },
	})
	return nil
}

// upload adds one file after the other and prints a line for each. It goes on after a file that the server refuses, but not if the server is
// unreachable or the user interrupts it.
func (a *app) upload(ctx context.Context, c *client.Client, collection string, files []upload) error {
	documents := []agent.KnowledgeDocument{}
	var firstErr error
	failed := 0
	for i := range files {
		added, err := a.addFile(ctx, c, collection, &files[i])
		switch code := exitCode(err); {
		case err == nil:
			documents = append(documents, added...)
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case code == exitUnreachable, len(files) == 1:
			return err
		}
		a.printNote("✗ %s: %v", clipName(files[i].name), err)
		failed++
		if firstErr == nil {
			firstErr = err
		}
	}
	if a.output == "json" {
		if err := a.printJSON(documents); err != nil {
			return err
		}
	}
	if firstErr != nil {
		a.printNote("Error: %s of %d not added", quantity(failed, "file"), len(files))
		return exitStatus(exitCode(firstErr))
	}
	return nil
}

func (a *app) addFile(ctx context.Context, c *client.Client, collection string, u *upload) ([]agent.KnowledgeDocument, error) {
	body, err := u.open()
	if err != nil {
		return nil, usageError{err}
	}
	defer body.Close() //nolint:errcheck // read-only
	file := u.file
	file.Collection, file.Body = collection, body
	added, err := c.AddKnowledge(ctx, file)
	if err != nil || a.output == "json" {
		return added, err
	}
	chunks := 0
	for i := range added {
		chunks += added[i].Chunks
	}
	if len(added) == 1 {
		a.printLine("✓ %s: %s as %s", clipName(u.name), quantity(chunks, "chunk"), clipName(added[0].ID))
	} else {
		a.printLine("✓ %s: %s, %s", clipName(u.name), quantity(len(added), "document"), quantity(chunks, "chunk"))
	}
	return added, nil
}
