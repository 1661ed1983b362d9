package rawcorpus

import (
	"errors"
	"strings"
)

// HPACK (RFC 7541), as much of it as responses need. golang.org/x/net implements it,
// too, but is not a requirement of this module.

// staticFields is the static table (appendix A).
var staticFields = strings.Split(":authority=;:method=GET;:method=POST;:path=/;:path=/index.html;:scheme=http;:scheme=https;:status=200;:status=204;:status=206;:status=304;:status=400;:status=404;:status=500;accept-charset=;accept-encoding=gzip, deflate;accept-language=;accept-ranges=;accept=;access-control-allow-origin=;age=;allow=;authorization=;cache-control=;content-disposition=;content-encoding=;content-language=;content-length=;content-location=;content-range=;content-type=;cookie=;date=;etag=;expect=;expires=;from=;host=;if-match=;if-modified-since=;if-none-match=;if-range=;if-unmodified-since=;last-modified=;link=;location=;max-forwards=;proxy-authenticate=;proxy-authorization=;range=;referer=;refresh=;retry-after=;server=;set-cookie=;strict-transport-security=;transfer-encoding=;user-agent=;vary=;via=;www-authenticate=", ";")

// codeLengths are the lengths of the Huffman codes of all bytes (appendix B), in base
// 36. Codes of the same length are consecutive in the order of the bytes, so the
// lengths define all codes.
const codeLengths = "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad67777777777777777777777878djde6f56565666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmnqqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrq"

type code struct {
	bits   uint32
	length int
}

var codes = func() map[code]byte {
	all := map[code]byte{}
	next := uint32(0)
	for length := 5; length <= 30; length++ {
		for i := range codeLengths {
			l := int(codeLengths[i] - '0')
			if l > 9 {
				l = int(codeLengths[i]-'a') + 10
			}
			if l == length {
				all[code{next, length}] = byte(i)
				next++
			}
		}
		next <<= 1
	}
	return all
}()

// unhuffman decodes a string; the remaining bits are padding.
func unhuffman(p []byte) string {
	var b strings.Builder
	var c code
	for _, octet := range p {
		for i := 7; i >= 0; i-- {
			c = code{c.bits<<1 | uint32(octet>>i&1), c.length + 1}
			if s, ok := codes[c]; ok {
				b.WriteByte(s)
				c = code{}
			}
		}
	}
	return b.String()
}

// A fieldDecoder decodes header blocks. Its dynamic table is unbounded, which is fine
// for a test's connection.
type fieldDecoder struct{ dynamic []string }

var errBlock = errors.New("malformed header block")

// integer reads an integer with a prefix of n bits (section 5.1).
func integer(p []byte, n int) (v int, rest []byte, err error) {
	if len(p) == 0 {
		return 0, nil, errBlock
	}
	most := 1<<n - 1
	v = int(p[0]) & most
	p = p[1:]
	if v < most {
		return v, p, nil
	}
	for shift := 0; len(p) > 0 && shift < 28; shift += 7 {
		b := p[0]
		p = p[1:]
		v += int(b&127) << shift
		if b < 128 {
			return v, p, nil
		}
	}
	return 0, nil, errBlock
}

func text(p []byte) (s string, rest []byte, err error) {
	if len(p) == 0 {
		return "", nil, errBlock
	}
	huffman := p[0]&128 != 0
	n, p, err := integer(p, 7)
	if err != nil || n > len(p) {
		return "", nil, errBlock
	}
	if huffman {
		return unhuffman(p[:n]), p[n:], nil
	}
	return string(p[:n]), p[n:], nil
}

func (d *fieldDecoder) at(i int) (string, error) {
	switch {
	case i >= 1 && i <= len(staticFields):
		return staticFields[i-1], nil
	case i > len(staticFields) && i <= len(staticFields)+len(d.dynamic):
		return d.dynamic[len(d.dynamic)-(i-len(staticFields))], nil
	}
	return "", errBlock
}

// decode returns the fields of a block as "name=value".
func (d *fieldDecoder) decode(p []byte) (fields []string, err error) {
	for len(p) > 0 {
		first := p[0]
		var n int
		switch {
		case first&0x80 != 0: // indexed
			if n, p, err = integer(p, 7); err != nil {
				return nil, err
			}
			f, err := d.at(n)
			if err != nil {
				return nil, err
			}
			fields = append(fields, f)
			continue
		case first&0xe0 == 0x20: // table size update
			if _, p, err = integer(p, 5); err != nil {
				return nil, err
			}
			continue
		case first&0x40 != 0:
			n, p, err = integer(p, 6)
		default:
			n, p, err = integer(p, 4)
		}
		if err != nil {
			return nil, err
		}
		var name, value string
		if n == 0 {
			if name, p, err = text(p); err != nil {
				return nil, err
			}
		} else {
			f, err := d.at(n)
			if err != nil {
				return nil, err
			}
			i := strings.Index(f[1:], "=")
			name = f[:i+1]
		}
		if value, p, err = text(p); err != nil {
			return nil, err
		}
		f := name + "=" + value
		if first&0x40 != 0 {
			d.dynamic = append(d.dynamic, f)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// encodeFields encodes fields as never-indexed literals, whatever they contain.
func encodeFields(fields [][2]string) []byte {
	var b []byte
	for _, f := range fields {
		b = append(b, 0x10)
		for _, s := range f {
			b = append(appendInteger(b, len(s)), s...)
		}
	}
	return b
}

func appendInteger(b []byte, n int) []byte {
	if n < 127 {
		return append(b, byte(n))
	}
	b = append(b, 127)
	for n -= 127; n >= 128; n >>= 7 {
		b = append(b, byte(n)|128)
	}
	return append(b, byte(n))
}
