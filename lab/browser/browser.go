package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/weir-go/weir/lab/engine"
)

// How long Chromium may take on a busy machine to start and to run a command.
const (
	startPatience = time.Minute
	patience      = 30 * time.Second
)

// A Browser is a running Chromium with its own profile.
type Browser struct {
	ctx   context.Context
	close func()
}

// Start starts Chromium, which ends with ctx or with Close. If Chromium is not
// installed the error is an [*engine.MissingError].
func Start(ctx context.Context) (*Browser, error) {
	program, err := engine.Command(ctx, "chromium")
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "weir-browser-")
	if err != nil {
		return nil, err
	}
	ctx, stop := chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(program.Path),
		chromedp.Env(program.Env...), // library paths, if it was unpacked without being installed
		chromedp.UserDataDir(profile),
		chromedp.Headless,
		chromedp.NoSandbox, // a sandbox is impossible as root; it visits only our own pages
		chromedp.NoFirstRun,
		chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(startPatience),
		// No other host is contacted.
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
	)
	ctx, quit := chromedp.NewContext(ctx)
	b := &Browser{ctx: ctx, close: func() { quit(); stop(); _ = os.RemoveAll(profile) }}
	if err := chromedp.Do(ctx); err != nil {
		b.close()
		return nil, fmt.Errorf("browser: %w", err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() { b.close() }

// A View is how a page is displayed.
type View struct {
	Width, Height int
	Dark          bool
}

// A Page is a tab.
type Page struct {
	ctx   context.Context
	close func()

	mu       sync.Mutex
	messages []string // guarded by mu
	asked    []string // guarded by mu
}

// Open opens an empty tab with its own cookies.
func (b *Browser) Open(v View) (*Page, error) {
	p := &Page{}
	p.ctx, p.close = chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	_, err := chromedp.Call(p.ctx, network.Enable, network.EnableParams{})
	if err == nil {
		_, err = chromedp.Call(p.ctx, log.Enable, cdp.Empty{})
	}
	if err == nil {
		err = p.View(v)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("browser: %w", err)
	}
	return p, nil
}

// hear handles the events of the tab.
func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		text := "console." + string(e.Type) + ":"
		for _, arg := range e.Args {
			text += " " + string(arg.Value) + arg.Description
		}
		p.messages = append(p.messages, text)
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		text := fmt.Sprintf("%s (%s:%d)", d.Text, d.URL, d.LineNumber+1)
		if d.Exception != nil {
			text += " " + d.Exception.Description
		}
		p.messages = append(p.messages, text)
	case *log.EventEntryAdded:
		p.messages = append(p.messages, fmt.Sprintf("%s: %s (%s)", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	}
}

// Messages returns the messages in the browser's console, including exceptions and
// blocked content.
func (p *Page) Messages() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.messages...)
}

// Asked returns all URLs that the page requested.
func (p *Page) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

// Forget clears the messages and the URLs.
func (p *Page) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages, p.asked = nil, nil
}

// Close closes the tab.
func (p *Page) Close() { p.close() }

// View changes how the page is displayed.
func (p *Page) View(v View) error {
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}); err != nil {
		return fmt.Errorf("browser: %w", err)
	}
	return p.do(chromedp.EmulateViewport(int64(v.Width), int64(v.Height)))
}

// Goto navigates to a URL and waits until the page has loaded.
func (p *Page) Goto(url string) error { return p.do(chromedp.Navigate(url)) }

// Eval returns the value of a JavaScript expression, awaited if it is a promise.
func Eval[T any](p *Page, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		err = fmt.Errorf("browser: %s: %w", expression, err)
	}
	return v, err
}

// Until waits until a JavaScript expression is true.
func (p *Page) Until(expression string) error {
	late := time.After(patience)
	for {
		// Do not poll in the page: its content security policy would block that.
		ok, err := Eval[bool](p, "!!("+expression+")")
		if ok {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-p.ctx.Done():
			return fmt.Errorf("browser: %s: %w", expression, context.Cause(p.ctx))
		case <-late:
			return errors.Join(fmt.Errorf("browser: still false after %v: %s", patience, expression), err)
		}
	}
}

// Type types text, as from a keyboard, into the focused element.
func (p *Page) Type(text string) error { return p.do(chromedp.KeyEvent(text)) }

// Click clicks on the first element of a CSS selector, once it is visible.
func (p *Page) Click(selector string) error {
	return p.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// Fill replaces the text of a field.
func (p *Page) Fill(selector, text string) error {
	_, err := Eval[bool](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.select(); return true })()`, selector))
	if err != nil {
		return err
	}
	return p.Type(text)
}

// Picture returns the visible part of the page, as a PNG.
func (p *Page) Picture() ([]byte, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.CaptureScreenshot())
}

func (p *Page) do(steps ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		return fmt.Errorf("browser: %w", err)
	}
	return nil
}
