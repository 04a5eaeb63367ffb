package document

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"

	"github.com/ledongthuc/pdf"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxPDFObjects    = 1_000_000 // highest object number
	maxStreamObjects = 100_000   // in one object stream
)

var (
	pdfRoot    = regexp.MustCompile(`/Root\s+(\d{1,7})\s+(\d{1,5})\s+R`)
	pdfInfo    = regexp.MustCompile(`/Info\s+(\d{1,7})\s+(\d{1,5})\s+R`)
	pdfEncrypt = regexp.MustCompile(`/Encrypt\s*(?:<<|\d{1,7}\s+\d{1,5}\s+R)`)
)

// pdfObject is the position of an object.
type pdfObject struct {
	offset     int
	generation int
	origin     int // offset of the object, or of the object stream that contained it; of two objects with one number the later one counts
}

// openPDF opens a PDF with a new cross-reference table, which it makes by searching for objects. The library cannot use the table of a hostile file: it
// allocates any size, follows cycles, and fails if an offset is wrong. openPDF appends the objects of object streams to the file, so that the library
// reads each object once.
func openPDF(f *pdfFile, data []byte) (*pdf.Reader, error) {
	if pdfEncrypt.Match(data) {
		return nil, agent.Invalid("body", "the PDF is encrypted: remove its password first")
	}
	if err := f.checkNesting(data); err != nil {
		return nil, err
	}
	root := lastMatch(pdfRoot, data)
	if root == "" {
		return nil, agent.Invalid("body", "malformed PDF: it has no catalog")
	}
	trailer := "/Root " + root
	if info := lastMatch(pdfInfo, data); info != "" {
		trailer += "/Info " + info
	}
	objects, containers, err := findObjects(data)
	if err != nil {
		return nil, err
	}
	data = append([]byte("%PDF-1.7\n"), data[min(len(data), 9):]...) // the library reads no other version
	reader, err := f.open(appendIndex(data, objects, trailer+references(containers, objects)))
	if err != nil || len(containers) == 0 {
		return reader, err
	}
	list := reader.Trailer().Key("Containers")
	for i, number := range containers {
		if data, err = f.unpackObjects(list.Index(i), number, objects, data); err != nil {
			return nil, err
		}
	}
	if err := f.checkNesting(data); err != nil {
		return nil, err
	}
	return f.open(appendIndex(data, objects, trailer))
}

// lastMatch returns the reference, such as "12 0 R", of the last match. The newest trailer of an updated file is the last one.
func lastMatch(re *regexp.Regexp, data []byte) string {
	all := re.FindAllSubmatch(data, -1)
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	return string(last[1]) + " " + string(last[2]) + " R"
}

// findObjects returns the positions of all objects, which begin with "12 0 obj", by number. The last one with a number counts. Containers are the numbers
// of object streams.
func findObjects(data []byte) (objects map[int]pdfObject, containers []int, err error) {
	objects = map[int]pdfObject{}
	for pos := 0; ; {
		i := bytes.Index(data[pos:], []byte("obj"))
		if i < 0 {
			break
		}
		i += pos
		pos = i + len("obj")
		number, generation, start, ok := parseObjectHead(data[:i])
		if !ok {
			continue
		}
		if number > maxPDFObjects {
			return nil, nil, agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF has more than %d objects", maxPDFObjects)
		}
		objects[number] = pdfObject{offset: start, generation: generation, origin: start}
		head := data[pos:min(len(data), pos+1024)]
		if dict, _, ok := bytes.Cut(head, []byte("stream")); ok && bytes.Contains(dict, []byte("/ObjStm")) {
			containers = append(containers, number)
		}
	}
	return objects, containers, nil
}

// parseObjectHead parses "12 0 " at the end of head. It returns the numbers and where the first one starts.
func parseObjectHead(head []byte) (number, generation, start int, ok bool) {
	generation, head, ok = cutTrailingNumber(head, 5)
	if !ok {
		return 0, 0, 0, false
	}
	number, head, ok = cutTrailingNumber(head, 8)
	return number, generation, len(head), ok && number > 0
}

// cutTrailingNumber returns the number before the white space at the end of b, of at most maxDigits digits, and the bytes before it.
func cutTrailingNumber(b []byte, maxDigits int) (n int, before []byte, ok bool) {
	text := bytes.TrimRight(b, " \t\r\n")
	i := len(text)
	for i > 0 && len(text)-i < maxDigits && text[i-1] >= '0' && text[i-1] <= '9' {
		i--
	}
	n, err := strconv.Atoi(string(text[i:]))
	return n, text[:i], err == nil && len(text) < len(b)
}

// unpackObjects appends the objects of an object stream to the file, unless the file has newer ones.
func (f *pdfFile) unpackObjects(stream pdf.Value, number int, objects map[int]pdfObject, data []byte) ([]byte, error) {
	body, err := f.unpackStream(stream)
	if err != nil {
		return nil, err
	}
	malformed := agent.Invalid("body", "malformed PDF: object stream %d", number)
	count, first := stream.Key("N").Int64(), stream.Key("First").Int64()
	if count < 0 || count > maxStreamObjects || first < 0 || first > int64(len(body)) {
		return nil, malformed
	}
	fields := bytes.Fields(body[:first])
	count = min(count, int64(len(fields)/2))
	numbers, offsets := make([]int, count), make([]int, count+1)
	body = body[first:]
	for i := range numbers {
		var err1, err2 error
		numbers[i], err1 = strconv.Atoi(string(fields[2*i]))
		offsets[i], err2 = strconv.Atoi(string(fields[2*i+1]))
		if err1 != nil || err2 != nil || numbers[i] < 1 || numbers[i] > maxPDFObjects || offsets[i] < 0 || offsets[i] > len(body) {
			return nil, malformed
		}
	}
	offsets[count] = len(body)
	origin := objects[number].origin
	for i, n := range numbers {
		if offsets[i] > offsets[i+1] {
			return nil, malformed
		}
		if old, ok := objects[n]; ok && old.origin > origin {
			continue
		}
		data = append(data, '\n')
		objects[n] = pdfObject{offset: len(data), origin: origin}
		data = fmt.Appendf(data, "%d 0 obj\n%s\nendobj\n", n, body[offsets[i]:offsets[i+1]])
	}
	return data, nil
}

// references returns a trailer entry with references to objects, empty for no objects.
func references(numbers []int, objects map[int]pdfObject) string {
	if len(numbers) == 0 {
		return ""
	}
	var b bytes.Buffer
	b.WriteString("/Containers [")
	for _, n := range numbers {
		fmt.Fprintf(&b, "%d %d R ", n, objects[n].generation)
	}
	b.WriteString("]")
	return b.String()
}

// appendIndex returns data with a cross-reference stream at its end (ISO 32000-1, 7.5.8).
func appendIndex(data []byte, objects map[int]pdfObject, trailer string) []byte {
	size := 0
	for n := range objects {
		size = max(size, n+1)
	}
	table := make([]byte, 7*size) // kind, offset and generation of each object
	for n, o := range objects {
		row := table[7*n:]
		row[0] = 1
		binary.BigEndian.PutUint32(row[1:], uint32(o.offset))     //nolint:gosec // bounded by MaxBytes and maxPDFUnpacked
		binary.BigEndian.PutUint16(row[5:], uint16(o.generation)) //nolint:gosec // at most five digits; a larger one is wrong anyway
	}
	out := bytes.NewBuffer(make([]byte, 0, len(data)+len(table)+256+len(trailer)))
	out.Write(data)
	fmt.Fprintf(out, "\n%d 0 obj\n<</Type/XRef/Size %d/W[1 4 2]/Length %d%s>>\nstream\n", size, size, len(table), trailer)
	start := len(data) + 1
	out.Write(table)
	fmt.Fprintf(out, "\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", start)
	return out.Bytes()
}
