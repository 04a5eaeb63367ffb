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
	pdfObjects   = 1_000_000 // highest object number
	pdfContained = 100_000   // objects in one object stream
)

var (
	pdfRoot    = regexp.MustCompile(`/Root\s+(\d{1,7})\s+(\d{1,5})\s+R`)
	pdfInfo    = regexp.MustCompile(`/Info\s+(\d{1,7})\s+(\d{1,5})\s+R`)
	pdfEncrypt = regexp.MustCompile(`/Encrypt\s*(?:<<|\d{1,7}\s+\d{1,5}\s+R)`)
)

// pdfEntry says where an object is.
type pdfEntry struct {
	at    int // its first byte
	gen   int
	since int // the place in the file that it comes from: of two, the later counts
}

// openPDF opens a PDF with a new cross-reference table, which it makes by searching for objects, as repairing readers do: the library
// allocates whatever the file's table says, follows cyclic tables, and fails on those that are a byte off. It unpacks the objects of
// compressed streams behind the file, where the library reads each once.
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
	data = append([]byte("%PDF-1.7\n"), data[min(len(data), 9):]...) // the library knows no others
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

// lastMatch returns "12 0 R" of the last place where an expression matches: a file that was updated has its newest trailer last.
func lastMatch(re *regexp.Regexp, data []byte) string {
	all := re.FindAllSubmatch(data, -1)
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	return string(last[1]) + " " + string(last[2]) + " R"
}

// findObjects finds "12 0 obj". Of several with one number the last one counts. Containers are the object streams among them.
func findObjects(data []byte) (objects map[int]pdfEntry, containers []int, err error) {
	objects = map[int]pdfEntry{}
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("obj"))
		if i < 0 {
			break
		}
		i += at
		at = i + len("obj")
		number, gen, start, ok := parseObjectHead(data[:i])
		if !ok {
			continue
		}
		if number > pdfObjects {
			return nil, nil, agent.FieldErrorf(agent.CodeOverflow, "body", "the PDF has more than %d objects", pdfObjects)
		}
		objects[number] = pdfEntry{at: start, gen: gen, since: start}
		head := data[at:min(len(data), at+1024)]
		if dict, _, ok := bytes.Cut(head, []byte("stream")); ok && bytes.Contains(dict, []byte("/ObjStm")) {
			containers = append(containers, number)
		}
	}
	return objects, containers, nil
}

// objectAt reads "12 0 " at the end of head.
func parseObjectHead(head []byte) (number, gen, start int, ok bool) {
	rest := bytes.TrimRight(head, " \t\r\n")
	if len(rest) == len(head) {
		return 0, 0, 0, false
	}
	gen, rest, ok = parseTrailingNumber(rest, 5)
	if !ok {
		return 0, 0, 0, false
	}
	spaced := bytes.TrimRight(rest, " \t\r\n")
	if len(spaced) == len(rest) {
		return 0, 0, 0, false
	}
	number, rest, ok = parseTrailingNumber(spaced, 8)
	return number, gen, len(rest), ok && number > 0
}

func parseTrailingNumber(b []byte, digits int) (n int, rest []byte, ok bool) {
	i := len(b)
	for i > 0 && len(b)-i < digits && b[i-1] >= '0' && b[i-1] <= '9' {
		i--
	}
	n, err := strconv.Atoi(string(b[i:]))
	return n, b[:i], err == nil
}

// unpackObjects appends the objects of an object stream to the file, unless the file has newer ones.
func (f *pdfFile) unpackObjects(stream pdf.Value, number int, objects map[int]pdfEntry, data []byte) ([]byte, error) {
	body, err := f.unpackStream(stream)
	if err != nil {
		return nil, err
	}
	malformed := agent.Invalid("body", "malformed PDF: object stream %d", number)
	count, first := stream.Key("N").Int64(), stream.Key("First").Int64()
	if count < 0 || count > pdfContained || first < 0 || first > int64(len(body)) {
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
		if err1 != nil || err2 != nil || numbers[i] < 1 || numbers[i] > pdfObjects || offsets[i] < 0 || offsets[i] > len(body) {
			return nil, malformed
		}
	}
	offsets[count] = len(body)
	since := objects[number].since
	for i, n := range numbers {
		if offsets[i] > offsets[i+1] {
			return nil, malformed
		}
		if known, ok := objects[n]; ok && known.since > since {
			continue
		}
		data = append(data, '\n')
		objects[n] = pdfEntry{at: len(data), since: since}
		data = fmt.Appendf(data, "%d 0 obj\n%s\nendobj\n", n, body[offsets[i]:offsets[i+1]])
	}
	return data, nil
}

func references(numbers []int, objects map[int]pdfEntry) string {
	if len(numbers) == 0 {
		return ""
	}
	var b bytes.Buffer
	b.WriteString("/Containers [")
	for _, n := range numbers {
		fmt.Fprintf(&b, "%d %d R ", n, objects[n].gen)
	}
	b.WriteString("]")
	return b.String()
}

// appendIndex returns data with a cross-reference stream behind it (ISO 32000-1, 7.5.8).
func appendIndex(data []byte, objects map[int]pdfEntry, trailer string) []byte {
	size := 0
	for n := range objects {
		size = max(size, n+1)
	}
	table := make([]byte, 7*size) // of each: kind, offset, generation
	for n, o := range objects {
		row := table[7*n:]
		row[0] = 1
		binary.BigEndian.PutUint32(row[1:], uint32(o.at))  //nolint:gosec // at most MaxBytes and what is unpacked
		binary.BigEndian.PutUint16(row[5:], uint16(o.gen)) //nolint:gosec // five digits
	}
	out := bytes.NewBuffer(make([]byte, 0, len(data)+len(table)+256+len(trailer)))
	out.Write(data)
	fmt.Fprintf(out, "\n%d 0 obj\n<</Type/XRef/Size %d/W[1 4 2]/Length %d%s>>\nstream\n", size, size, len(table), trailer)
	at := len(data) + 1
	out.Write(table)
	fmt.Fprintf(out, "\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n", at)
	return out.Bytes()
}
