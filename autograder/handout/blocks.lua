-- Hints, boxes and captions, for the page and for the PDF.
--
--   ::: {.hint title="Where to begin"}     folded away on the page, a framed block on paper
--   ::: {.box title="What True means"}     framed in both

local figures = 0

local function wrapped(before, blocks, after)
  local all = pandoc.Blocks{before}
  all:extend(blocks)
  all:insert(after)
  return all
end

local function on_page(element, title)
  local name = pandoc.write(pandoc.Pandoc{pandoc.Plain(title)}, 'html'):gsub('%s+$', '')
  if element.classes:includes 'hint' then
    local open = '<details class="hint"><summary>Hint: ' .. name .. '</summary>'
    return wrapped(pandoc.RawBlock('html', open), element.content, pandoc.RawBlock('html', '</details>'))
  end
  local open = '<aside class="box"><p class="box-title">' .. name .. '</p>'
  return wrapped(pandoc.RawBlock('html', open), element.content, pandoc.RawBlock('html', '</aside>'))
end

local function on_paper(element, title)
  local name = pandoc.write(pandoc.Pandoc{pandoc.Plain(title)}, 'typst'):gsub('%s+$', '')
  local prefix = element.classes:includes 'hint' and 'Hint: ' or ''
  return wrapped(pandoc.RawBlock('typst', '#note[' .. prefix .. name .. ']['), element.content, pandoc.RawBlock('typst', ']'))
end

function Div(element)
  local title = element.attributes.title
  if not title or not (element.classes:includes 'hint' or element.classes:includes 'box') then
    return nil
  end
  local inlines = pandoc.read(title, 'markdown').blocks[1].content
  if FORMAT == 'typst' then
    return on_paper(element, inlines)
  end
  return on_page(element, inlines)
end

-- typst counts figures by itself.
function Figure(element)
  if FORMAT ~= 'typst' then
    figures = figures + 1
    local number = pandoc.Strong(pandoc.Str('Figure ' .. figures .. ':'))
    element.caption.long[1].content = pandoc.Inlines{number, pandoc.Space()} .. element.caption.long[1].content
  end
  return element
end

-- The marks of generated tables are for those who edit the text. A table that is wider than a phone scrolls by itself.
function RawBlock(element)
  if element.text:match '^<!%-%-.*%-%->%s*$' then
    return {}
  end
end

function Table(element)
  if FORMAT ~= 'typst' then
    return pandoc.Div(element, pandoc.Attr('', {'wide'}, {tabindex = '0'}))
  end
end
