package terminal

// Control sequences of ECMA-48 that set how the text after them looks.
const (
	Bold   = "\x1b[1m"
	Faint  = "\x1b[2m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Cyan   = "\x1b[36m"

	normal = "\x1b[0m"
)

// Paint returns text between one of the sequences and the one that ends it. Without color,
// a sequence or a text it returns text as it is.
func Paint(color bool, code, text string) string {
	if !color || code == "" || text == "" {
		return text
	}
	return code + text + normal
}
