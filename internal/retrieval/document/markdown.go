package document

import (
	"strings"
	"unicode/utf8"
)

// maxHeading bounds a heading in a path, in runes. A longer one stands in the text instead.
const maxHeading = 120

func parseMarkdown(data []byte) (Document, error) {
	text, err := decodeText(data)
	if err != nil {
		return Document{}, err
	}
	return splitMarkdown(text), nil
}

// splitMarkdown splits a text at its headings. The title is the first heading of the first level.
func splitMarkdown(text string) Document {
	s := markdownSplitter{}
	lines := strings.SplitAfter(text, "\n")
	if n := frontMatterLines(lines); n > 0 {
		s.body.WriteString(strings.Join(lines[:n], ""))
		s.endSection()
		lines = lines[n:]
	}
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if s.inFence(line) {
			s.body.WriteString(line)
			continue
		}
		if level, heading := parseATXHeading(line); level > 0 {
			s.startHeading(level, heading, line)
			continue
		}
		if i+1 < len(lines) && (i == 0 || strings.TrimSpace(lines[i-1]) == "") {
			if level := setextLevel(line, lines[i+1]); level > 0 {
				s.startHeading(level, strings.TrimSpace(line), line)
				i++
				continue
			}
		}
		s.body.WriteString(line)
	}
	s.endSection()
	return Document{Title: s.title, Sections: s.done}
}

type markdownSplitter struct {
	title string
	path  [6]string // the open heading of each level
	empty bool      // the innermost heading has nothing below it so far
	body  strings.Builder
	fence string // that closes the open code block
	done  []Section
}

func (s *markdownSplitter) startHeading(level int, text, line string) {
	fits := text != "" && utf8.RuneCountInString(text) <= maxHeading
	if s.empty && s.depth() < level && strings.TrimSpace(s.body.String()) == "" {
		s.body.Reset() // the heading below it carries it on
	} else {
		s.endSection()
	}
	for i := level - 1; i < len(s.path); i++ {
		s.path[i] = ""
	}
	s.empty = fits
	if !fits {
		s.body.WriteString(line)
		return
	}
	s.path[level-1] = text
	if s.title == "" && level == 1 {
		s.title = text
	}
}

// depth is the level of the innermost open heading.
func (s *markdownSplitter) depth() int {
	for i := len(s.path); i > 0; i-- {
		if s.path[i-1] != "" {
			return i
		}
	}
	return 0
}

// endSection closes the section that is open. A section without text is kept for its heading's sake, unless that stands in another's path.
func (s *markdownSplitter) endSection() {
	var path []string
	for _, h := range s.path {
		if h != "" {
			path = append(path, h)
		}
	}
	body := s.body.String()
	if strings.TrimSpace(body) != "" || s.empty {
		s.done = appendSection(s.done, Section{Path: path, Text: body})
	}
	s.body.Reset()
	s.empty = false
}

// inFence reports whether a line belongs to a fenced code block, its fences included.
func (s *markdownSplitter) inFence(line string) bool {
	if s.fence == "" {
		s.fence = OpeningFence(line)
		return s.fence != ""
	}
	if ClosesFence(line, s.fence) {
		s.fence = ""
	}
	return true
}

// OpeningFence returns the run of ` or ~ that opens a fenced code block on a line, "" if none does. Deeper indents than CommonMark's three
// spaces are allowed: blocks stand in lists.
func OpeningFence(line string) string {
	line = strings.TrimSpace(line)
	for _, mark := range []string{"`", "~"} {
		run := line[:len(line)-len(strings.TrimLeft(line, mark))]
		if len(run) >= 3 && (mark == "~" || !strings.Contains(line[len(run):], "`")) {
			return run
		}
	}
	return ""
}

// ClosesFence reports whether a line closes the code block that a fence has opened.
func ClosesFence(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// parseATXHeading parses "## Heading ##"; level 0: the line is no heading.
func parseATXHeading(line string) (level int, text string) {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	rest := strings.TrimRight(line[indent:], " \t\n")
	level = len(rest) - len(strings.TrimLeft(rest, "#"))
	if indent > 3 || level == 0 || level > 6 {
		return 0, ""
	}
	text = rest[level:]
	if text != "" && text[0] != ' ' && text[0] != '\t' {
		return 0, ""
	}
	text = strings.TrimSpace(text)
	if closed := strings.TrimRight(text, "#"); closed == "" || strings.HasSuffix(closed, " ") {
		text = strings.TrimSpace(closed)
	}
	return level, text
}

// setextLevel returns the level of a heading that is underlined with = or -, 0 for other text. Only paragraphs of one line are
// headings here: a longer one before a rule is more often a slip than a heading.
func setextLevel(line, under string) int {
	text, under := strings.TrimSpace(line), strings.TrimRight(under, " \t\n")
	if text == "" || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") || strings.ContainsAny(text[:1], "-*+>|#`~") || len(under) < 2 {
		return 0
	}
	switch {
	case strings.Trim(under, "=") == "":
		return 1
	case strings.Trim(under, "-") == "":
		return 2
	default:
		return 0
	}
}

// frontMatterLines counts the lines of a YAML head: from --- to ---.
func frontMatterLines(lines []string) int {
	if strings.TrimRight(lines[0], " \n") != "---" {
		return 0
	}
	for i := 1; i < len(lines) && i < 200; i++ {
		if strings.TrimRight(lines[i], " \n") == "---" {
			return i + 1
		}
	}
	return 0
}
