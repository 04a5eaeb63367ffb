package cli

import (
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
	var up uploads
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
		RunE: a.send(func(ctx context.Context, c *client.Client, args []string) error {
			files, err := up.files(ctx, a.in, args[1:])
			if err != nil {
				return err
			}
			return a.upload(ctx, c, args[0], files)
		}),
	}
	cmd.Flags().StringVar(&up.id, "id", "", "of the document (default: made of the source); for one file")
	cmd.Flags().StringVar(&up.title, "title", "", "of the document (default: its own); for one file")
	cmd.Flags().StringVar(&up.source, "source", "", "URL or name for citations (default: the file's name); for one file")
	cmd.Flags().StringVar(&up.kind, "type", "", "text, markdown, html, pdf, jsonl or a MIME type (default: by the file's name)")
	return cmd
}

// uploads are the files of one command line, and what its flags say of them.
type uploads struct {
	id, title, source, kind string

	found   []upload
	piped   bool // standard input is among them
	entries int  // of all folders
}

// upload is a file on its way.
type upload struct {
	name string // for people
	file client.File
	open func() (io.ReadCloser, error)
}

// maxUploads is how many files one command adds.
const maxUploads = 10_000

func typeOfName(name string) string {
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

// typeOfFlag understands MIME types and the extensions' names.
func typeOfFlag(kind string) (string, error) {
	switch {
	case kind == "" || strings.Contains(kind, "/"):
		return kind, nil
	case kind == "text":
		return "text/plain", nil
	}
	if known := typeOfName("." + kind); known != "" {
		return known, nil
	}
	return "", fmt.Errorf("--type is %q, want text, markdown, html, pdf, jsonl or a MIME type", kind)
}

// files finds the files that a command line names, without reading them. What is wrong with them is a [usageError].
func (u *uploads) files(ctx context.Context, stdin io.Reader, names []string) ([]upload, error) {
	for _, name := range names {
		if err := u.find(ctx, stdin, name); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, usageError{err}
		}
	}
	kind, err := typeOfFlag(u.kind)
	switch {
	case err != nil:
		return nil, usageError{err}
	case len(u.found) > 1 && (u.id != "" || u.title != "" || u.source != ""):
		return nil, usageError{fmt.Errorf("--id, --title and --source are for one file, not for %d", len(u.found))}
	}
	for i := range u.found {
		f := &u.found[i].file
		f.ID, f.Title = u.id, u.title
		if kind != "" {
			f.MIMEType = kind
		}
		if u.source != "" {
			f.Source = u.source
		}
		if f.MIMEType == "" && f.Source == "" {
			return nil, usageError{errors.New("standard input wants --type, or a --source whose name says it")}
		}
	}
	return u.found, nil
}

func (u *uploads) find(ctx context.Context, stdin io.Reader, name string) error {
	if name == "-" {
		if u.piped {
			return errors.New("standard input is named twice")
		}
		u.piped = true
		u.found = append(u.found, upload{name: "stdin", open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }})
		return nil
	}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return u.folder(ctx, name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is no regular file", name)
	}
	return u.add(name)
}

func (u *uploads) folder(ctx context.Context, folder string) error {
	before := len(u.found)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if u.entries++; u.entries > maxEntries {
			return fmt.Errorf("%s: more than %d files and folders", folder, maxEntries)
		}
		switch hidden := path != folder && strings.HasPrefix(entry.Name(), "."); {
		case err != nil:
			return fmt.Errorf("%s: %w", path, reason(err))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case hidden && entry.IsDir():
			return fs.SkipDir
		case hidden || !entry.Type().IsRegular() || typeOfName(path) == "":
			return nil
		}
		return u.add(path)
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
	path = filepath.Clean(path) // ./a.md and a.md are one document
	u.found = append(u.found, upload{
		name: path, file: client.File{Source: filepath.ToSlash(path), MIMEType: typeOfName(path)},
		open: func() (io.ReadCloser, error) { return os.Open(path) },
	})
	return nil
}

// upload adds file by file, a line for each. What keeps the server from answering at all, or the user, ends it at once.
func (a *app) upload(ctx context.Context, c *client.Client, collection string, files []upload) error {
	documents := []agent.KnowledgeDocument{}
	var first error
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
		if first == nil {
			first = err
		}
	}
	if a.output == "json" {
		if err := a.printJSON(documents); err != nil {
			return err
		}
	}
	if first != nil {
		a.printNote("Error: %s of %d not added", count(failed, "file"), len(files))
		return outcome(exitCode(first))
	}
	return nil
}

func (a *app) addFile(ctx context.Context, c *client.Client, collection string, up *upload) ([]agent.KnowledgeDocument, error) {
	body, err := up.open()
	if err != nil {
		return nil, usageError{err}
	}
	defer body.Close() //nolint:errcheck // read-only
	file := up.file
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
		a.printLine("✓ %s: %s as %s", clipName(up.name), count(chunks, "chunk"), clipName(added[0].ID))
	} else {
		a.printLine("✓ %s: %s, %s", clipName(up.name), count(len(added), "document"), count(chunks, "chunk"))
	}
	return added, nil
}
