"""The page in a real browser."""

import base64
import io
import re
import shutil

import numpy as np
from PIL import Image
import pytest

from estimator_trainer.common.serving.form import form_of
from estimator_trainer.common.serving.rest import Inputs
from tests.cluster.tasks import free_ports
from tests.serving import pages

playwright = pytest.importorskip('playwright.sync_api', reason="it needs pip install -e '.[browser]'")
expect = playwright.expect

CHROMIUM = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
pytestmark = pytest.mark.skipif(not CHROMIUM, reason='it needs Chromium')

MILLISECONDS = 100_000
PHONE, DESK = {'width': 390, 'height': 844}, {'width': 1400, 'height': 900}
# Passes the base64 of a file to the page's events, as a file of a desktop or of the clipboard.
TRANSFER = """([name, content]) => {
  const transfer = new DataTransfer()
  transfer.items.add(new File([Uint8Array.from(atob(content), c => c.charCodeAt(0))], name, { type: 'image/png' }))
  return transfer
}"""
# The least contrast between a text and what is behind it, https://www.w3.org/TR/WCAG21/#contrast-minimum.
CONTRAST = """() => {
  const light = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(value => {
      const part = value / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b)
    return (high + 0.05) / (low + 0.05)
  }
  const behind = node => {
    const color = getComputedStyle(node).backgroundColor
    return color === 'rgba(0, 0, 0, 0)' ? behind(node.parentElement) : color
  }
  const hasText = node => node.offsetParent && [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim())
  const found = [...document.body.querySelectorAll('*')].filter(node => hasText(node) || node.matches('input, textarea'))
  const pairs = found.map(node => [getComputedStyle(node).color, behind(node)])
  document.querySelectorAll('.bar i').forEach(bar => {
    pairs.push([getComputedStyle(bar.parentElement).color, getComputedStyle(bar).backgroundColor])
  })
  return Math.min(...pairs.map(([one, other]) => contrast(one, other)))
}"""


@pytest.fixture(scope='module')
def browser():
    with playwright.sync_playwright() as started:
        expect.set_options(timeout=MILLISECONDS)
        browser = started.chromium.launch(executable_path=CHROMIUM, timeout=MILLISECONDS)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Opens the page of a server: opened(port, **options) -> Page; what the browser says of errors fails the test."""
    contexts, faults = [], []

    def open_page(port, **options):
        contexts.append(browser.new_context(**{'viewport': DESK, **options}))
        page = contexts[-1].new_page()
        page.set_default_timeout(MILLISECONDS)
        page.on('pageerror', lambda error: faults.append(str(error)))
        page.on('console', lambda line: faults.append(line.text) if 'Content Security Policy' in line.text else None)
        page.goto(f'http://127.0.0.1:{port}')
        page.locator('.field, #form > p').first.wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope='module')
def digits():
    with pages.serving(pages.digits()) as port:
        yield port


@pytest.fixture(scope='module')
def reviews():
    with pages.serving(pages.reviews()) as port:
        yield port


@pytest.fixture(scope='module')
def incomes():
    with pages.serving(pages.incomes()) as port:
        yield port


def bar(is_tall):
    """Returns a PNG file with a white bar."""
    pixels = np.zeros([40, 40], np.uint8)
    pixels[4:36, 18:22] = 255
    file = io.BytesIO()
    Image.fromarray(pixels if is_tall else pixels.T).save(file, 'PNG')
    return file.getvalue()


def expect_class(page, name, share='90.0 %'):
    expect(page.locator('.class')).to_have_text(name)
    expect(page.locator('.bar').first).to_have_text(f'{name}{share}')


def draw(page, dx, dy):
    """Draws a line through the middle of the canvas."""
    box = page.locator('canvas').bounding_box()
    x, y = box['x'] + box['width'] / 2, box['y'] + box['height'] / 2
    page.mouse.move(x - dx, y - dy)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=3)
    page.mouse.up()


def test_a_picture_is_chosen_dropped_or_pasted(opened, digits, tmp_path):
    page = opened(digits)
    path = tmp_path / "it's.png"
    path.write_bytes(bar(True))
    page.locator('input[type=file]').set_input_files(path)
    expect_class(page, 'tall')
    expect(page.get_by_alt_text('The chosen picture')).to_be_visible()
    expect(page.locator('#curl')).to_contain_text("base64 -w0 'it'\\''s.png'")
    drop, encoded = page.locator('.drop'), base64.b64encode(bar(False)).decode()
    drop.dispatch_event('drop', {'dataTransfer': page.evaluate_handle(TRANSFER, ['wide.png', encoded])})
    expect_class(page, 'wide')
    page.evaluate(
        f"""given => document.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData: ({TRANSFER})(given) }}))""",
        ['tall.png', base64.b64encode(bar(True)).decode()],
    )
    expect_class(page, 'tall')
    page.locator('input[type=file]').set_input_files({'name': 'x.png', 'mimeType': 'image/png', 'buffer': b'no picture'})
    expect(page.locator('#answer .error')).to_contain_text('is not an image')


def test_a_digit_is_drawn_and_cleared(opened, digits):
    page = opened(digits)
    page.locator('#send').click()
    expect(page.locator('#answer .error')).to_have_text('image: choose a picture, or draw one.')
    draw(page, 0, 40)
    expect_class(page, 'tall')
    page.get_by_role('button', name='Clear the drawing').click()
    draw(page, 60, 0)
    expect_class(page, 'wide')
    page.get_by_role('button', name='Clear the drawing').click()
    page.locator('#send').click()
    expect(page.locator('#answer .error')).to_have_text('image: choose a picture, or draw one.')


def test_a_row_of_a_table_is_asked_for_with_ranges_and_categories(opened, incomes):
    page = opened(incomes)
    expect(page.get_by_label('age')).to_have_accessible_description('mostly 15 to 55')
    assert page.locator('datalist option').evaluate_all('nodes => nodes.map(node => node.value)') == ['Rome', 'Oslo']
    page.get_by_label('age').fill('45')
    page.get_by_label('city').fill('Rome')
    page.get_by_role('button', name='Predict').click()
    expect_class(page, 'high')
    expect(page.locator('#curl')).to_contain_text('{"instances":[{"age":45,"city":"Rome","since":""}]}')
    page.get_by_label('age').fill('old')
    page.get_by_role('button', name='Predict').click()
    expect(page.locator('#answer .error')).to_contain_text("could not convert string to float: 'old'")


def test_what_mattered_is_told_of_columns_words_and_patches(opened, digits, reviews, incomes):
    page = opened(incomes)
    page.get_by_label('age').fill('45')
    page.get_by_label('city').fill('Rome')
    page.keyboard.press('Enter')
    page.get_by_role('button', name='What mattered?').click()
    expect(page.locator('#reasons .bar')).to_have_text(['age+60.0 %', 'city0', 'since0'])
    expect(page.locator('#reasons p')).to_contain_text('the probability of high')
    page = opened(reviews)
    page.get_by_label('text').fill('a good film')
    page.locator('#send').click()
    page.get_by_role('button', name='What mattered?').click()
    expect(page.locator('#reasons mark')).to_have_text(['a', 'good', 'film'])
    tinted = "nodes => nodes.map(node => getComputedStyle(node).backgroundColor !== 'rgba(0, 0, 0, 0)')"
    assert page.locator('#reasons mark').evaluate_all(tinted) == [False, True, False]
    page.get_by_label('text').fill('a good film ' * 30)
    page.locator('#send').click()
    page.get_by_role('button', name='What mattered?').click()
    expect(page.locator('#reasons p')).to_contain_text('Only the first 64 of 90 words were tried.')
    page = opened(digits)
    draw(page, 0, 40)
    page.get_by_role('button', name='What mattered?').click()
    image = page.get_by_alt_text('The picture, tinted where it mattered, most in the center')
    image.wait_for()
    assert image.evaluate('node => node.decode().then(() => node.naturalWidth)') == 28
    draw(page, 60, 0)
    expect(page.locator('#reasons > *')).to_have_count(0)  # They were of another picture.


def test_a_model_of_which_nothing_is_known_has_no_form(opened):
    model = pages.reviews()
    model.form = form_of('reviews', Inputs({}), {})
    with pages.serving(model) as port:
        page = opened(port)
        expect(page.locator('#form')).to_contain_text('these are its inputs and outputs')
        page.get_by_role('link').click()
        expect(page.locator('body')).to_contain_text('signature_def')


def test_the_keyboard_suffices_for_a_text(opened, reviews):
    page = opened(reviews)
    page.keyboard.press('Tab')
    page.keyboard.type('a good film')
    page.keyboard.press('Control+Enter')
    expect_class(page, 'good')


def test_the_keyboard_suffices_for_a_table(opened, incomes):
    page = opened(incomes)
    for text in ('45', 'Oslo', ''):
        page.keyboard.press('Tab')
        page.keyboard.type(text)
    page.keyboard.press('Enter')
    expect_class(page, 'low', '70.0 %')


@pytest.mark.parametrize('key', ['Enter', 'Space'])
def test_the_keyboard_suffices_for_a_picture(opened, digits, key):
    page = opened(digits)
    page.on('filechooser', lambda chooser: None)  # Else Chromium may show it before it is told that the test answers.
    page.keyboard.press('Tab')
    assert page.locator('.drop').evaluate('node => getComputedStyle(node).outlineStyle') == 'solid'
    with page.expect_file_chooser() as chooser:
        page.keyboard.press(key)
    chooser.value.set_files({'name': 'x.png', 'mimeType': 'image/png', 'buffer': bar(True)})
    expect_class(page, 'tall')


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_a_phone_needs_no_scrolling_to_the_side_and_texts_are_readable(opened, digits, incomes, scheme):
    backs = []
    for port in (digits, incomes):
        page = opened(port, viewport=PHONE, color_scheme=scheme, has_touch=True)
        page.locator('#send').click()  # Of pictures, an error.
        page.locator('#answer .error, .class').wait_for()
        assert page.evaluate('document.documentElement.scrollWidth') == PHONE['width']
        assert page.evaluate(CONTRAST) >= 4.5
        backs.append(page.evaluate('getComputedStyle(document.body).backgroundColor'))
    assert all((int(re.search(r'\d+', back)[0]) < 50) == (scheme == 'dark') for back in backs)


def test_the_page_says_that_the_server_is_away_and_goes_on_when_it_is_back(opened):
    (port,) = free_ports(1)  # That nobody takes meanwhile.
    with pages.serving(pages.reviews(), port):
        page = opened(port)
        page.get_by_label('text').fill('a good film')
        expect(page.locator('#away')).to_be_hidden()
    page.locator('#send').click()
    expect(page.locator('#answer .error')).to_have_text('The server does not answer.')
    expect(page.locator('#away')).to_be_visible()
    expect(page.locator('#step')).to_have_text('no connection')
    with pages.serving(pages.reviews(), port):
        expect(page.locator('#away')).to_be_hidden()
        expect(page.locator('#step')).to_have_text('step 7')
        page.locator('#send').click()
        expect_class(page, 'good')
